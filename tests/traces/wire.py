"""Requests as the SDKs put them on the wire."""

import json
import uuid
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from storage.database import Database
from storage.ids import new_id
from storage.tenancy import create_key
from storage.traces.order import segment_of

BOUNDARY = "9f1c7e0a5b7d4d8f"
MULTIPART = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
Part = tuple[str, str, bytes]


def multipart(parts: list[Part]) -> bytes:
    """Parts (name, content type, data) as one body."""
    body = bytearray()
    for name, content_type, data in parts:
        body += f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n'.encode()
        body += (
            f"Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data + b"\r\n"
        )
    return bytes(body) + f"--{BOUNDARY}--\r\n".encode()


def json_part(name: str, value: Any) -> Part:
    return name, "application/json", json.dumps(value).encode()


def root_run(**fields: Any) -> dict[str, Any]:
    """A finished root run's JSON object."""
    run_id = uuid.uuid4()
    began = datetime.now(UTC)
    return {
        "id": str(run_id),
        "trace_id": str(run_id),
        "dotted_order": segment_of(run_id, began),
        "name": "run",
        "run_type": "chain",
        "session_name": "wire",
        "start_time": began.isoformat(),
        "end_time": began.isoformat(),
        "inputs": {"question": "?"},
        **fields,
    }


async def new_deployment(database: Database, tenant_id: UUID, name: str) -> tuple[UUID, str]:
    """A deployment that only traces: its id, and the key its workers would hold."""
    deployment_id = new_id()
    async with database.transaction() as connection:
        await connection.execute(
            "INSERT INTO deployments (id, tenant_id, name, source, status, listener_id)"
            " VALUES (%s, %s, %s, 'internal_source', 'READY', '00000000-0000-4000-8000-000000000001')",
            (deployment_id, tenant_id, name),
        )
        key = await create_key(connection, tenant_id, "t", scope="tracing", deployment_id=deployment_id)
    return deployment_id, key

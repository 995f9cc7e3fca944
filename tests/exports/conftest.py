"""An exporting workspace: its API, its bucket, and what lies in it."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from temporalio.client import Client, WorkflowHandle

from storage.database import Database
from tests.conftest import Workspace
from tests.exports import seeding
from tests.stacks import Stack
from workflows.messages import names

BASE = "/api/v1/bulk-exports"
TERMINAL = {"COMPLETED", "FAILED", "CANCELLED", "TIMEDOUT"}


@dataclass
class Exporter:
    """Uses the API of one workspace and reads the bucket that its destination writes to."""

    stack: Stack
    database: Database
    workspace: Workspace
    prefix: str
    s3: Any

    @property
    def client(self) -> httpx.AsyncClient:
        return self.workspace.client

    @property
    def tenant_id(self) -> UUID:
        return self.workspace.tenant_id

    def destination_body(self, **changes: Any) -> dict[str, Any]:
        config = {
            "bucket_name": self.stack.demo_bucket,
            "prefix": self.prefix,
            "region": "us-east-1",
            "endpoint_url": self.stack.s3_endpoint_url,
        }
        return {
            "destination_type": "s3",
            "display_name": "tests",
            "config": {**config, **changes.pop("config", {})},
            "credentials": {
                "access_key_id": self.stack.s3_access_key_id,
                "secret_access_key": self.stack.s3_secret_access_key,
            },
            **changes,
        }

    async def create_destination(self, **changes: Any) -> str:
        answer = await self.client.post(f"{BASE}/destinations", json=self.destination_body(**changes))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    async def create(
        self, destination_id: str, start: datetime, end: datetime, **body: Any
    ) -> dict[str, Any]:
        answer = await self.client.post(
            BASE,
            json={
                "bulk_export_destination_id": destination_id,
                "start_time": start.isoformat(),
                "end_time": end.isoformat(),
                "format_version": "v2_beta",
                **body,
            },
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def get(self, export_id: str) -> dict[str, Any]:
        answer = await self.client.get(f"{BASE}/{export_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def wait(self, export_id: str, timeout_seconds: float = 90.0) -> dict[str, Any]:
        """The export once it has ended; while servers are away, and a moment longer, nobody can say."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            export: dict[str, Any] = {}
            with contextlib.suppress(httpx.TransportError):
                answer = await self.client.get(f"{BASE}/{export_id}")
                assert answer.status_code in (200, 503), answer.text
                export = dict(answer.json()) if answer.status_code == 200 else {}
                if export.get("status") in TERMINAL:
                    return export
            assert time.monotonic() < deadline, f"still not ended: {export}"
            await asyncio.sleep(0.1)

    async def keys(self, prefix: str = "") -> list[str]:
        """Keys under the destination's prefix, without it."""
        root = f"{self.prefix}/"
        pages = self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.stack.demo_bucket, Prefix=root + prefix
        )
        return [item["Key"].removeprefix(root) async for page in pages for item in page.get("Contents", [])]

    async def read(self, key: str) -> bytes:
        answer = await self.s3.get_object(Bucket=self.stack.demo_bucket, Key=f"{self.prefix}/{key}")
        return bytes(await answer["Body"].read())

    async def tables(self, export_id: str) -> list[pa.Table]:
        """Its files, in order of key."""
        keys = sorted(key for key in await self.keys(f"export_id={export_id}/"))
        return [pq.ParquetFile(pa.BufferReader(await self.read(key))).read() for key in keys]

    async def exported_ids(self, export_id: str) -> list[str]:
        return [value for table in await self.tables(export_id) for value in table.column("id").to_pylist()]

    async def open_uploads(self) -> list[str]:
        answer = await self.s3.list_multipart_uploads(Bucket=self.stack.demo_bucket, Prefix=self.prefix)
        return [upload["Key"] for upload in answer.get("Uploads", [])]

    async def rows_written(self, export_id: str) -> int:
        progress = (await self.get(export_id))["progress"]
        return int(progress["rows_written"]) if progress else 0

    async def workflow(self, export_id: str) -> WorkflowHandle[Any, Any]:
        client = await Client.connect(self.stack.temporal_address)
        return client.get_workflow_handle(names.export_workflow_id(export_id))

    async def workflow_ended(self, export_id: str, timeout_seconds: float = 60.0) -> None:
        """Wait until nothing of the export is in flight any more."""
        async with asyncio.timeout(timeout_seconds):
            await (await self.workflow(export_id)).result()

    async def project(self, name: str = "exported") -> UUID:
        return await seeding.make_project(self.database, self.tenant_id, name)


@pytest.fixture
async def exporter(stack: Stack, database: Database, workspace: Workspace) -> AsyncIterator[Exporter]:
    async with open_exporter(stack, database, workspace) as exporter:
        yield exporter


@asynccontextmanager
async def open_exporter(stack: Stack, database: Database, workspace: Workspace) -> AsyncIterator[Exporter]:
    async with get_session().create_client(
        "s3",
        endpoint_url=stack.s3_endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=stack.s3_access_key_id,
        aws_secret_access_key=stack.s3_secret_access_key,
        config=AioConfig(s3={"addressing_style": "path"}),
    ) as s3:
        yield Exporter(stack, database, workspace, f"tests/{uuid4().hex}", s3)

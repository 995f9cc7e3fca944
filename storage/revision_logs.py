"""Log lines of builds and of revision workers (control plane contract §1.2, §1.4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from storage.database import Connection

LogType = Literal["build", "deploy"]
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclass(frozen=True)
class LogLine:
    level: str
    message: str
    logged_at: datetime


@dataclass(frozen=True)
class LogQuery:
    """Which lines are wanted. `after` is the id of the last line seen; `level` also matches graver ones."""

    type: LogType
    order: Literal["asc", "desc"]
    limit: int
    after: int | None = None
    level: str | None = None
    text: str | None = None
    start_time: datetime | None = None
    end_time: datetime | None = None
    run_id: UUID | None = None


async def append_logs(
    connection: Connection,
    tenant_id: UUID,
    deployment_id: UUID,
    revision_id: UUID,
    log_type: LogType,
    lines: Sequence[LogLine],
) -> None:
    """Add lines in order; those of a revision that is gone are dropped."""
    await connection.execute(
        "INSERT INTO revision_logs (tenant_id, deployment_id, revision_id, type, level, message, logged_at)"
        " SELECT %s, %s, %s, %s, line.level, line.message, line.logged_at"
        " FROM unnest(%s::text[], %b::text[], %s::timestamptz[]) WITH ORDINALITY"
        " AS line (level, message, logged_at, position)"
        " WHERE EXISTS (SELECT FROM revisions WHERE tenant_id = %s AND deployment_id = %s AND id = %s)"
        " ORDER BY line.position",
        (
            tenant_id,
            deployment_id,
            revision_id,
            log_type,
            [line.level for line in lines],
            [line.message for line in lines],
            [line.logged_at for line in lines],
            tenant_id,
            deployment_id,
            revision_id,
        ),
    )


async def read_logs(
    connection: Connection,
    tenant_id: UUID,
    deployment_id: UUID,
    revision_id: UUID | None,
    wanted: LogQuery,
) -> list[dict[str, Any]]:
    """Rows of id, logged_at, level and message, of one revision or of all of the deployment."""
    comparison = ">" if wanted.order == "asc" else "<"
    cursor = await connection.execute(
        "SELECT id, revision_id, logged_at, level, message FROM revision_logs"
        " WHERE tenant_id = %(tenant_id)s AND deployment_id = %(deployment_id)s AND type = %(type)s"
        " AND (%(revision_id)s::uuid IS NULL OR revision_id = %(revision_id)s)"
        f" AND (%(after)s::bigint IS NULL OR id {comparison} %(after)s)"
        " AND (%(levels)s::text[] IS NULL OR level = ANY(%(levels)s))"
        " AND (%(text)s::text IS NULL OR strpos(lower(message), lower(%(text)s)) > 0)"
        " AND (%(start_time)s::timestamptz IS NULL OR logged_at >= %(start_time)s)"
        " AND (%(end_time)s::timestamptz IS NULL OR logged_at <= %(end_time)s)"
        " AND (%(run_id)s::uuid IS NULL OR run_id = %(run_id)s)"
        f" ORDER BY id {wanted.order} LIMIT %(limit)s".encode(),
        {
            "tenant_id": tenant_id,
            "deployment_id": deployment_id,
            "revision_id": revision_id,
            "type": wanted.type,
            "after": wanted.after,
            "levels": list(LEVELS[LEVELS.index(wanted.level) :]) if wanted.level else None,
            "text": wanted.text,
            "start_time": wanted.start_time,
            "end_time": wanted.end_time,
            "run_id": wanted.run_id,
            "limit": wanted.limit,
        },
    )
    return await cursor.fetchall()

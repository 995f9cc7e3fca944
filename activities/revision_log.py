"""Writing a revision's logs: in batches, without secrets, never more than a bounded amount."""

import asyncio
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from types import TracebackType
from uuid import UUID

import psycopg
import structlog
from psycopg_pool import PoolTimeout

from storage.database import Database
from storage.revision_logs import LogLine, LogType, append_logs
from workflows.messages.rollout import RevisionRef

log = structlog.get_logger()

_INTERVAL_SECONDS = 0.2
_QUEUE_LINES = 5_000
_BATCH_LINES = 500
_LONGEST_LINE = 8_000
_SHORTEST_SECRET = 4
_LEVEL = re.compile(r"\b(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b", re.IGNORECASE)
_NAMES = {"WARN": "WARNING", "FATAL": "CRITICAL"}
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class RevisionLog:
    """`async with RevisionLog(...)`: lines are stored within a fraction of a second, the last ones on leaving."""

    def __init__(
        self, database: Database, ref: RevisionRef, log_type: LogType, secrets: Iterable[str]
    ) -> None:
        self._database = database
        self._ref = ref
        self._type: LogType = log_type
        # Longest first: a secret may contain another one.
        self._secrets = sorted(
            {text for text in secrets if len(text) >= _SHORTEST_SECRET}, key=len, reverse=True
        )
        self._lines: list[LogLine] = []
        self._dropped = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "RevisionLog":
        self._task = asyncio.create_task(self._flush_for_ever())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._flush()

    def write(self, message: str, level: str | None = None) -> None:
        """Add a line. Without `level` it is read out of the text, else INFO. Lines beyond what can be stored in time
        are counted and dropped: a revision that prints without end must not fill anything."""
        text = self.masked(_ESCAPES.sub("", message).rstrip())
        if not text:
            return
        if len(self._lines) >= _QUEUE_LINES:
            self._dropped += 1
            return
        self._lines.append(LogLine(level or _level_in(text), text[:_LONGEST_LINE], datetime.now(UTC)))

    def masked(self, text: str) -> str:
        """`text` without the values of secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    async def _flush_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL_SECONDS)
            await asyncio.shield(self._flush())

    async def _flush(self) -> None:
        if self._dropped:
            self._lines.append(LogLine("WARNING", f"{self._dropped} lines were dropped.", datetime.now(UTC)))
            self._dropped = 0
        while self._lines:
            batch = self._lines[:_BATCH_LINES]
            try:
                async with self._database.connection() as connection:
                    await append_logs(
                        connection,
                        UUID(self._ref.tenant_id),
                        UUID(self._ref.deployment_id),
                        UUID(self._ref.revision_id),
                        self._type,
                        batch,
                    )
            except (psycopg.Error, PoolTimeout) as error:
                log.warning("revision_log_waits", revision_id=self._ref.revision_id, error=str(error)[:200])
                return
            del self._lines[: len(batch)]


def _level_in(text: str) -> str:
    found = _LEVEL.search(text[:80])
    if found is None:
        return "ERROR" if text.startswith("Traceback") else "INFO"
    name = found.group(1).upper()
    return _NAMES.get(name, name)

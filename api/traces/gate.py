"""Holds back ingestion when more is under way than memory and the database take (trace contract §5.4)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from starlette.requests import Request

from api.errors import ApiError, UnavailableError
from api.traces.quota import IngestQuota

# The Python SDK waits 10 seconds for an answer: one that says "later" has to come before that.
WAIT_SECONDS = 5.0
_RETRY_AFTER_SECONDS = 2


class Admission:
    """One request's body, and how many bytes of this process's share it holds."""

    def __init__(self, gate: "IngestGate", tenant_id: UUID) -> None:
        self._gate = gate
        self.tenant_id = tenant_id
        self.body = b""
        self.held_bytes = 0

    def hold(self, size_bytes: int) -> None:
        """Count bytes that the request now holds too: of its body, or of what became of it.

        Raises:
            UnavailableError: it would be more than all requests together may hold, and it is not the only one.
        """
        self._gate.check(size_bytes, self)
        self._gate.quota.spend(self.tenant_id, size_bytes)
        self._gate.held_bytes += size_bytes
        self.held_bytes += size_bytes


class IngestGate:
    """At most `concurrent` requests work, and all that arrive, wait or work hold at most `limit_bytes`.

    What is beyond is told to come back: SDKs keep their batch and try again.
    """

    def __init__(self, concurrent: int, limit_bytes: int, quota: IngestQuota) -> None:
        self._slots = asyncio.Semaphore(concurrent)
        self._limit = limit_bytes
        self.quota = quota
        self.held_bytes = 0

    @asynccontextmanager
    async def admit(self, request: Request, tenant_id: UUID) -> AsyncIterator[Admission]:
        """Read a request's body and wait for a turn to work on it.

        Raises:
            TooManyRequestsError: the workspace sends more than it may.
            UnavailableError: there is no memory for it, or no turn within a few seconds; nothing was stored.
        """
        async with self.read(request, tenant_id) as admission, self.turn():
            yield admission

    @asynccontextmanager
    async def read(self, request: Request, tenant_id: UUID) -> AsyncIterator[Admission]:
        """Read a request's body; its bytes count as held until the block ends.

        Raises:
            TooManyRequestsError: the workspace sends more than it may.
            UnavailableError: there is no memory for it.
        """
        admission = Admission(self, tenant_id)
        try:
            await self._read(request, admission)
            yield admission
        finally:
            self.held_bytes -= admission.held_bytes

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Be one of those that work.

        Raises:
            UnavailableError: there was no turn within a few seconds.
        """
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._slots.acquire()
        except TimeoutError:
            raise overloaded() from None
        try:
            yield
        finally:
            self._slots.release()

    def check(self, more_bytes: int, admission: Admission) -> None:
        """Raises UnavailableError if a request cannot hold so much more; one that is alone always can."""
        others = self.held_bytes - admission.held_bytes
        if others and self.held_bytes + more_bytes > self._limit:
            raise overloaded()

    async def _read(self, request: Request, admission: Admission) -> None:
        refusal: ApiError | None = None
        chunks: list[bytes] = []
        try:
            self.quota.check(admission.tenant_id)
            self.check(_announced_bytes(request), admission)
        except ApiError as error:
            refusal = error
        async for chunk in request.stream():
            # A refused body is read to its end and dropped: most clients look for an answer only then.
            if refusal is None:
                try:
                    admission.hold(len(chunk))
                    chunks.append(chunk)
                except UnavailableError as error:
                    refusal = error
                    chunks.clear()
        if refusal is not None:
            raise refusal
        admission.body = b"".join(chunks)


def _announced_bytes(request: Request) -> int:
    """0 where a client streams without saying how much comes."""
    length = request.headers.get("content-length", "0")
    return int(length) if length.isdigit() and len(length) < 20 else 0


def overloaded() -> UnavailableError:
    """More came than this process takes."""
    return UnavailableError(
        "Too many traces are being ingested; nothing was stored, try again.", _RETRY_AFTER_SECONDS
    )

"""A workspace that sends more than it may is told when to come back; the others notice nothing."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
from starlette.requests import Request

from api.errors import TooManyRequestsError
from api.traces import quota
from api.traces.gate import IngestGate
from api.traces.quota import IngestQuota

RATE = 1_000


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(quota, "time", clock)
    return clock


class Upload:
    """A request of so many bytes in chunks; counts what was taken off the wire."""

    def __init__(self, size_bytes: int) -> None:
        self._chunks = [b"x" * 1_000] * (size_bytes // 1_000)
        self.read_chunks = 0

    async def receive(self) -> dict[str, object]:
        await asyncio.sleep(0)
        self.read_chunks += 1
        last = self.read_chunks == len(self._chunks)
        return {"type": "http.request", "body": self._chunks[self.read_chunks - 1], "more_body": not last}

    async def send(self, gate: IngestGate, tenant_id: UUID) -> int:
        """Bytes that were admitted."""
        request = Request({"type": "http", "method": "POST", "headers": []}, self.receive)
        async with gate.admit(request, tenant_id) as admission:
            return len(admission.body)


@pytest.fixture
async def gate() -> AsyncIterator[IngestGate]:
    gate = IngestGate(2, 10**9, IngestQuota(RATE))
    yield gate
    assert gate.held_bytes == 0


async def test_who_overdraws_waits_and_others_do_not(gate: IngestGate, clock: Clock) -> None:
    busy, other = uuid4(), uuid4()
    # Ten seconds' worth are saved up, and the request that overdraws them is taken whole.
    assert await Upload(9_000).send(gate, busy) == 9_000
    assert await Upload(5_000).send(gate, busy) == 5_000
    refused = Upload(3_000)
    with pytest.raises(TooManyRequestsError) as error:
        await refused.send(gate, busy)
    assert error.value.headers == {"Retry-After": "5"}
    assert refused.read_chunks == 3, "read to its end, for the client listens only then"
    assert await Upload(9_000).send(gate, other) == 9_000
    clock.now += 4
    with pytest.raises(TooManyRequestsError):
        await Upload(1_000).send(gate, busy)
    clock.now += 1
    assert await Upload(1_000).send(gate, busy) == 1_000


async def test_without_a_limit_nobody_waits(clock: Clock) -> None:
    gate, busy = IngestGate(2, 10**9, IngestQuota(None)), uuid4()
    for _ in range(3):
        assert await Upload(1_000_000).send(gate, busy) == 1_000_000

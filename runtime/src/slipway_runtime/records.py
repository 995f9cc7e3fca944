"""What one attempt of a run has to write: its record, filled in the user's loop, emptied by the event writer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from slipway_runtime.saver import SupersededError


class RunLimitError(Exception):
    """The run emitted more than a run may."""


class EventRow(NamedTuple):
    """One row of `thread_events`. `weight`: how many events of the protocol it stands for; so many numbers it takes."""

    event: str
    namespace: str
    data: str
    weight: int


class StateRow(NamedTuple):
    """One row of `thread_states`, as JSON texts."""

    checkpoint_ns: str
    checkpoint_id: str
    parent_checkpoint_id: str | None
    metadata: str
    state: str


@dataclass(frozen=True)
class Snapshot:
    """What the thread's row shows of its newest state, as JSON texts."""

    values: str
    interrupts: str


@dataclass(frozen=True)
class Settlement:
    """How a run ended. `thread_status` holds unless other runs of the thread wait."""

    status: str
    thread_status: str
    error: str | None = None


@dataclass(frozen=True)
class Limits:
    """Per attempt of a run. Beyond them the run ends with an error."""

    events: int = 1_000_000
    event_bytes: int = 2 * 1024**3


@dataclass
class Batch:
    """What a record held when the writer took it."""

    events: list[EventRow] = field(default_factory=list)
    states: dict[tuple[str, str], StateRow] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    settlement: Settlement | None = None


class RunRecord:
    """Rows of one attempt, in order. `append` and the like are called in one loop, `take` in another."""

    def __init__(
        self,
        run_id: str,
        thread_id: str,
        attempt: int,
        wake: Callable[["RunRecord", int], None],
        limits: Limits,
        graph_id: str = "",
        assistant_id: str = "",
    ) -> None:
        self.run_id = run_id
        self.thread_id = thread_id
        self.attempt = attempt
        self.graph_id = graph_id
        self.assistant_id = assistant_id
        # Rows of this attempt that are known to be stored.
        self.stored = 0
        self._batch = Batch()
        # Events that tell of the run's end: they become visible with it, in one transaction.
        self._last: list[EventRow] | None = None
        self._wake = wake
        self._limits = limits
        self._events = 0
        self._bytes = 0
        self._failure: BaseException | None = None

    @property
    def failure(self) -> BaseException | None:
        return self._failure

    def fail(self, failure: BaseException) -> None:
        """Nothing more of this attempt is written; whoever appends is told why."""
        self._failure = self._failure or failure

    def close(self) -> None:
        """The attempt is over; what user code that could not be stopped still emits is dropped."""
        self.fail(SupersededError("the attempt is over"))

    def append(self, event: str, namespace: tuple[str, ...], data: bytes, weight: int = 1) -> None:
        """Add an event.

        Raises:
            SupersededError: this attempt may not write any more.
            RunLimitError: the run emitted too much.
        """
        if self._failure is not None:
            raise self._failure
        row = EventRow(event, "|".join(namespace), data.decode(), weight)
        if self._last is not None:
            self._last.append(row)
            return
        self._count(len(data))
        self._batch.events.append(row)
        self._wake(self, len(data))

    def begin_end(self) -> None:
        """What is appended from now on is written together with the settlement. It is little, and has no limit."""
        self._last = self._last or []

    def put_state(self, row: StateRow) -> None:
        """Add or replace the public state of a checkpoint."""
        self._batch.states[row.checkpoint_ns, row.checkpoint_id] = row
        self._wake(self, len(row.state))

    def put_snapshot(self, snapshot: Snapshot) -> None:
        self._batch.snapshot = snapshot
        self._wake(self, 0)

    def settle(self, settlement: Settlement) -> None:
        self._batch.events += self._last or []
        self._batch.settlement = settlement
        self._wake(self, 0)

    def _count(self, size: int) -> None:
        self._events += 1
        self._bytes += size
        limits = self._limits
        if self._events > limits.events or self._bytes > limits.event_bytes:
            raise RunLimitError(
                f"A run may emit {limits.events} events and {limits.event_bytes} bytes of them at most; this one"
                " emitted more."
            )

    def take(self) -> Batch:
        taken, self._batch = self._batch, Batch()
        return taken

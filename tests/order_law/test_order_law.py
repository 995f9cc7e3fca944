"""The ordering law: runs of one thread never overlap and start in order of receipt, whatever is done to them.

Hypothesis makes up sequences of creations (all strategies, delays, failures), cancels and worker kills on several
threads; the machine then reads back what happened and holds it against what the law allows.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.served import Served
from tests.stacks import Stack

DEADLINE_SECONDS = 60.0
UNFINISHED = ("pending", "running")
THREADS = 3


@dataclass
class Created:
    """A run that the server acknowledged, and what was done that may have stopped it."""

    run_id: str
    name: str
    fails: bool
    delayed: bool
    stopped_by: set[str] = field(default_factory=set)

    def allowed(self) -> set[str]:
        """Final statuses that the law allows; `gone` for a run that was rolled back."""
        stopped = {"interrupt": "interrupted", "rollback": "gone"}
        return {"error" if self.fails else "success"} | {stopped[action] for action in self.stopped_by}


class OrderLaw(RuleBasedStateMachine):
    """One example: three fresh threads, some commands, then the reckoning."""

    client: httpx.Client
    served: Served
    kills_left = 2

    @initialize()
    def new_threads(self) -> None:
        self.threads = [self.post("/threads", {}).json()["thread_id"] for _ in range(THREADS)]
        self.runs: list[list[Created]] = [[] for _ in range(THREADS)]
        self.counter = 0
        self.killed = False

    @rule(
        thread=st.integers(0, THREADS - 1),
        strategy=st.sampled_from(["enqueue", "enqueue", "enqueue", "reject", "interrupt", "rollback"]),
        ms=st.sampled_from([0, 20, 120]),
        fails=st.sampled_from([False, False, False, True]),
        delay=st.sampled_from([0, 0, 0, 0.3]),
    )
    def create(self, thread: int, strategy: str, ms: int, fails: bool, delay: float) -> None:
        self.counter += 1
        name = f"r{self.counter}"
        response = self.post(
            f"/threads/{self.threads[thread]}/runs",
            {
                "assistant_id": "ledger",
                "input": {"name": name, "ms": ms, "fails": fails},
                "multitask_strategy": strategy,
                "after_seconds": delay,
            },
            allowed=(200, 409) if strategy == "reject" else (200,),
        )
        if response.status_code == 409:
            assert self.runs[thread], "refused although the thread has no run"
            return
        if strategy in ("interrupt", "rollback"):
            for earlier in self.runs[thread]:
                earlier.stopped_by.add(strategy)
        self.runs[thread].append(Created(response.json()["run_id"], name, fails, delay > 0))

    @precondition(lambda self: any(self.runs))
    @rule(data=st.data(), action=st.sampled_from(["interrupt", "rollback"]))
    def cancel(self, data: st.DataObject, action: str) -> None:
        thread = data.draw(st.sampled_from([n for n in range(THREADS) if self.runs[n]]))
        run = data.draw(st.sampled_from(self.runs[thread]))
        path = f"/threads/{self.threads[thread]}/runs/{run.run_id}/cancel?action={action}"
        if self.post(path, None, allowed=(202, 404)).status_code == 202:
            run.stopped_by.add(action)

    @precondition(lambda self: type(self).kills_left > 0 and not self.killed and self.counter > 3)
    @rule()
    def kill_worker(self) -> None:
        """SIGKILL in the middle of whatever runs; another worker takes over."""
        type(self).kills_left -= 1
        self.killed = True
        self.served.processes[-1].kill()
        self.served.start_worker()

    def teardown(self) -> None:
        for thread, runs in zip(self.threads, self.runs, strict=True):
            statuses = {run.name: self.final_status(thread, run) for run in runs}
            for run in runs:
                assert statuses[run.name] in run.allowed(), (run, statuses)
            self.check_entries(thread, runs, statuses)
            self.check_times(thread, runs)

    def check_entries(self, thread: str, runs: list[Created], statuses: dict[str, str]) -> None:
        """Each run's entries stand together, in order of receipt, and are what its status says."""
        values = self.client.get(f"/threads/{thread}/state").json()["values"]
        entries = [tuple(entry.split(":")) for entry in values.get("entries", [])]
        groups = [(name, [part for _, part in group]) for name, group in groupby(entries, lambda e: e[0])]
        names = [name for name, _ in groups]
        assert len(names) == len(set(names)), f"runs overlapped: {entries}"
        immediate = [run.name for run in runs if not run.delayed]
        assert [name for name in names if name in immediate] == [n for n in immediate if n in names], entries
        found = dict(groups)
        for run in runs:
            written = found.get(run.name, [])
            expected: dict[str, list[list[str]]] = {
                "success": [["a", "b"]],
                "error": [["a"]],
                "gone": [[]],
                "interrupted": [[], ["a"], ["a", "b"]],
            }
            assert written in expected[statuses[run.name]], (run, statuses, entries)

    def check_times(self, thread: str, runs: list[Created]) -> None:
        """No two runs of the thread were running at the same time, and it is not busy any more."""
        assert self.client.get(f"/threads/{thread}").json()["status"] != "busy"
        rows = asyncio.run_coroutine_threadsafe(self.spans(thread), self.loop).result(10)
        for earlier, later in pairwise(rows):
            assert earlier["ended_at"] <= later["started_at"], rows

    async def spans(self, thread: str) -> list[dict[str, Any]]:
        return await self.served.rows(
            "SELECT started_at, ended_at FROM runs WHERE thread_id = %s AND started_at IS NOT NULL ORDER BY started_at",
            thread,
        )

    def final_status(self, thread: str, run: Created) -> str:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            response = self.client.get(f"/threads/{thread}/runs/{run.run_id}")
            if response.status_code == 404:
                return "gone"
            status = str(response.json()["status"])
            if status not in UNFINISHED:
                return status
            time.sleep(0.05)
        raise AssertionError(f"{run} has not ended: {response.json()}")

    def post(self, path: str, body: Any, allowed: tuple[int, ...] = (200,)) -> httpx.Response:
        response = self.client.post(path, json=body)
        assert response.status_code in allowed, response.text
        return response

    loop: asyncio.AbstractEventLoop


@pytest.fixture
def client(stack: Stack, served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=served.url(stack.api_url),
        headers={"X-Api-Key": served.api_key},
        timeout=30,
        trust_env=False,
    ) as client:
        yield client


@pytest.mark.timeout(280)
async def test_runs_of_a_thread_keep_the_law_whatever_is_done_to_them(
    served: Served, client: httpx.Client
) -> None:
    class Machine(OrderLaw):
        pass

    Machine.client, Machine.served, Machine.loop = client, served, asyncio.get_running_loop()
    await asyncio.to_thread(
        run_state_machine_as_test,
        Machine,
        settings=settings(
            max_examples=15,
            stateful_step_count=12,
            deadline=None,
            derandomize=False,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )

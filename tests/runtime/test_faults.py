"""What happens to a run when its worker dies, stops, blocks, or is told to give up."""

import asyncio
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from tests.runtime.harness import Deployed, eventually
from workflows.messages import names
from workflows.messages.thread import CANCEL_SIGNAL, CancelRun

STEPS = [f"step{number}" for number in range(1, 6)]


async def _reached(deployed: Deployed, thread_id: UUID, step: str) -> None:
    """Wait until the step before `step` has its checkpoint."""

    async def check() -> bool:
        states = await deployed.states(thread_id)
        return bool(states) and states[-1]["next"] == [step]

    await eventually(check)


async def test_a_killed_workers_run_goes_on_elsewhere_each_step_once(
    own_deployment: Deployed, tmp_path: Path
) -> None:
    deployed, effects = own_deployment, tmp_path / "effects"
    first = await deployed.serve()
    thread_id, run_id = await deployed.run(
        "steps", input={"done": [], "seconds": 0.4, "effects": str(effects)}, stream_mode=["updates"]
    )
    behind = [
        (await deployed.run("steps", thread_id, input={"done": [f"next{n}"], "effects": ""}))[1]
        for n in range(2)
    ]
    await _reached(deployed, thread_id, "step3")
    first.send_signal(signal.SIGKILL)
    second = deployed.start_worker()
    run = await deployed.ended(run_id, 60)
    assert (run["status"], run["attempt"]) == ("success", 2)
    final = (await deployed.events(run_id))[-2]["data"]
    assert final["done"] == STEPS
    done = Counter(line.split()[0] for line in effects.read_text().splitlines())
    assert set(done) == set(STEPS)
    assert all(count == 1 for step, count in done.items() if step != "step3"), done
    assert {line.split()[1] for line in effects.read_text().splitlines()[-2:]} == {str(second.pid)}
    for other in behind:
        assert (await deployed.ended(other))["status"] == "success"
    values = (await deployed.thread_row(thread_id))["values"]["done"]
    assert [value for value in values if value.startswith("next")] == ["next0", "next1"]
    states = await deployed.states(thread_id)
    stored = await deployed.rows("SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s", str(thread_id))
    assert {row["checkpoint_id"] for row in stored} == {state["checkpoint_id"] for state in states}


async def test_a_worker_that_stops_gives_its_run_back(own_deployment: Deployed) -> None:
    deployed = own_deployment
    first = await deployed.serve(SLIPWAY_WORKER_GRACE_SECONDS="0")
    thread_id, run_id = await deployed.run("steps", input={"done": [], "seconds": 0.4})
    await _reached(deployed, thread_id, "step3")
    first.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(first.wait, 20) == 0
    deployed.start_worker()
    run = await deployed.ended(run_id, 30)
    assert (run["status"], run["attempt"]) == ("success", 2)
    assert (await deployed.thread_row(thread_id))["values"]["done"] == STEPS


async def test_a_worker_that_stops_finishes_what_it_runs(own_deployment: Deployed) -> None:
    deployed = own_deployment
    worker = await deployed.serve()
    thread_id, run_id = await deployed.run("steps", input={"done": [], "seconds": 0.3})
    await _reached(deployed, thread_id, "step2")
    worker.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.wait, 20) == 0
    run = await deployed.ended(run_id)
    assert (run["status"], run["attempt"]) == ("success", 1)


async def test_code_that_blocks_its_loop_is_not_taken_for_dead(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("blocking", input={"seconds": 10.0})
    run = await deployed.ended(run_id, 40)
    assert (run["status"], run["attempt"]) == ("success", 1)
    assert (await deployed.thread_row(thread_id))["values"]["done"] is True


async def test_a_superseded_attempt_writes_nothing(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run(
        "steps", input={"done": [], "seconds": 0.3}, stream_mode=["updates"]
    )
    await _reached(deployed, thread_id, "step3")
    async with deployed.database.connection() as connection:
        await connection.execute("UPDATE runs SET attempt = attempt + 1 WHERE run_id = %s", (run_id,))
    before = await _written(deployed, thread_id)
    handle = deployed.client.get_workflow_handle(names.thread_workflow_id(str(thread_id)))

    async def given_up() -> bool:
        return (await handle.query("describe"))["running"] is None

    await eventually(given_up)
    assert await _written(deployed, thread_id) == before
    assert (await deployed.one("SELECT status FROM runs WHERE run_id = %s", run_id))["status"] == "running"


async def _written(deployed: Deployed, thread_id: UUID) -> dict[str, Any]:
    return await deployed.one(
        "SELECT (SELECT count(*) FROM thread_events WHERE thread_id = %(t)s) AS events,"
        " (SELECT count(*) FROM thread_states WHERE thread_id = %(t)s) AS states,"
        " (SELECT count(*) FROM checkpoints WHERE thread_id = %(t)s::text) AS checkpoints,"
        " (SELECT values FROM threads WHERE thread_id = %(t)s) AS values".replace("%(t)s", f"'{thread_id}'")
    )


@pytest.mark.parametrize("graph", ["steps", "blocking"])
async def test_cancel_ends_a_run_whatever_its_code_does(
    deployed: Deployed, graph: str, tmp_path: Path
) -> None:
    # The ballast's checkpoint is still being written when the node begins to block the loop.
    release = tmp_path / "release"
    given = {"release": str(release), "ballast": ["x"] * 1_000_000} if graph == "blocking" else {"done": []}
    thread_id, run_id = await deployed.run(graph, input={"seconds": 120.0, **given})

    async def running() -> bool:
        return bool(
            (await deployed.one("SELECT status FROM runs WHERE run_id = %s", run_id))["status"] == "running"
        )

    try:
        await eventually(running)
        handle = deployed.client.get_workflow_handle(names.thread_workflow_id(str(thread_id)))
        await handle.signal(CANCEL_SIGNAL, CancelRun(str(run_id)))
        assert (await deployed.ended(run_id))["status"] == "interrupted"
    finally:
        release.touch()


async def test_a_deployments_role_sees_no_other_deployments_rows(
    deployed: Deployed, own_deployment: Deployed
) -> None:
    thread_id, run_id = await deployed.run("echo", input={"messages": "secret"})
    await deployed.ended(run_id)
    async with await psycopg.AsyncConnection.connect(own_deployment.worker_database_url) as connection:
        for table in ("threads", "runs", "thread_events", "thread_states", "checkpoints", "checkpoint_blobs"):
            row = await (await connection.execute(f"SELECT count(*) FROM {table}".encode())).fetchone()
            assert row == (0,), table
        cursor = await connection.execute(
            "UPDATE threads SET status = 'idle' WHERE thread_id = %s", (thread_id,)
        )
        assert cursor.rowcount == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await connection.execute("SELECT * FROM api_keys")

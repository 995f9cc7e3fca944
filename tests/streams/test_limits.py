"""Graphs that emit without end (docs/architecture/runs.md, Limits)."""

from tests.streams.conftest import Served, read_run

LIMITS = {"SLIPWAY_RUN_MAX_EVENTS": "100", "SLIPWAY_RUN_MAX_EVENT_BYTES": "20000"}
MESSAGE = "A run may emit 100 events and 20000 bytes of them at most; this one emitted more."


async def test_a_run_that_emits_more_than_it_may_fails_and_says_so(own_streaming: Served) -> None:
    deployment = own_streaming
    await deployment.serve(**LIMITS)
    endless = {"assistant_id": "chunks", "input": {"count": 10**9, "every_seconds": 0.0001}}
    large = {"assistant_id": "chat", "input": {"messages": "x" * 30_000}}
    for body, modes in ((endless, "custom"), (large, "values")):
        thread = await deployment.new_thread()
        frames = await read_run(deployment, thread, {**body, "stream_mode": modes})
        assert [frame["event"] for frame in frames][-2:] == ["error", "end"]
        assert frames[-2]["data"] == {"error": "RunLimitError", "message": MESSAGE}
        run_id = frames[0]["data"]["run_id"]
        run = await deployment.ended(run_id)
        assert (run["status"], run["attempt"], run["error"]["message"]) == ("error", 1, MESSAGE)
        assert (await deployment.thread_row(run["thread_id"]))["status"] == "error"
        assert len(await deployment.events(run_id)) <= 100 + 3
        if body is endless:
            chunks = [frame["data"]["chunk"] for frame in frames[1:-2]]
            assert chunks == list(range(len(chunks)))
            assert len(chunks) > 50
    # The worker is as it was: the next run works.
    frames = await read_run(
        deployment, await deployment.new_thread(), {"assistant_id": "chunks", "input": {"count": 3}}
    )
    assert frames[-1]["data"] == {"status": "success"}

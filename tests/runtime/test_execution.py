"""Runs on a real worker: results, interrupts, failures, odd values, what is recorded."""

from tests.runtime.harness import Deployed, eventually


async def test_a_run_ends_with_its_values_on_the_thread(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("echo", input={"messages": [{"role": "user", "content": "hi"}]})
    run = await deployed.ended(run_id)
    assert (run["status"], run["attempt"], run["revision_id"]) == ("success", 1, deployed.revision_id)
    thread = await deployed.thread_row(thread_id)
    assert thread["status"] == "idle"
    assert [m["content"] for m in thread["values"]["messages"]] == ["hi", "echo: hi"]
    assert [m["type"] for m in thread["values"]["messages"]] == ["human", "ai"]
    assert thread["metadata"]["graph_id"] == "echo"


async def test_every_checkpoint_has_its_public_state(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("steps", input={"done": []})
    await deployed.ended(run_id)
    states = await deployed.states(thread_id)
    assert [state["metadata"]["step"] for state in states] == [-1, 0, 1, 2, 3, 4, 5]
    assert [state["next"] for state in states[1:]] == [[f"step{n}"] for n in range(1, 6)] + [[]]
    assert states[1]["tasks"][0]["result"] == {"done": ["step1"]}
    assert states[1]["tasks"][0]["path"] == ["__pregel_pull", "step1"]
    assert {state["metadata"]["run_id"] for state in states} == {str(run_id)}
    assert states[3]["parent_checkpoint"]["checkpoint_id"] == states[2]["checkpoint"]["checkpoint_id"]
    stored = await deployed.rows("SELECT checkpoint_id FROM checkpoints WHERE thread_id = %s", str(thread_id))
    assert {row["checkpoint_id"] for row in stored} == {state["checkpoint_id"] for state in states}


async def test_interrupt_and_resume(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("asking", input={})
    assert (await deployed.ended(run_id))["status"] == "success"
    thread = await deployed.thread_row(thread_id)
    assert thread["status"] == "interrupted"
    [[interrupt]] = thread["interrupts"].values()
    assert interrupt["value"] == {"question": "go on?"}
    [asked] = [event for event in await deployed.events(run_id) if event["event"] == "input.requested"]
    assert asked["data"]["id"] == interrupt["id"]
    _, resumed = await deployed.run("asking", thread_id, command={"resume": "yes"})
    assert (await deployed.ended(resumed))["status"] == "success"
    thread = await deployed.thread_row(thread_id)
    assert (thread["status"], thread["interrupts"], thread["values"]) == ("idle", {}, {"answer": "yes"})


async def test_an_interrupt_of_a_subgraph_is_shown_and_answered(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("nested", input={})
    await deployed.ended(run_id)
    [state] = [state for state in await deployed.states(thread_id) if state["next"] == ["inner"]]
    namespace = state["tasks"][0]["checkpoint"]["checkpoint_ns"]
    assert state["interrupts"][0]["value"] == {"question": "go on?"}
    assert (await deployed.states(thread_id, namespace))[-1]["next"] == ["ask"]
    _, resumed = await deployed.run("nested", thread_id, command={"resume": 3})
    await deployed.ended(resumed)
    assert (await deployed.thread_row(thread_id))["values"] == {"answer": 3}


async def test_a_breakpoint_leaves_the_thread_interrupted(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("steps", input={"done": []}, interrupt_before=["step3"])
    assert (await deployed.ended(run_id))["status"] == "success"
    assert (await deployed.thread_row(thread_id))["status"] == "interrupted"
    _, resumed = await deployed.run("steps", thread_id, input=None)
    await deployed.ended(resumed)
    assert (await deployed.thread_row(thread_id))["values"]["done"] == [f"step{n}" for n in range(1, 6)]


async def test_a_failure_is_on_the_run_the_thread_and_the_task(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("failing", input={})
    run = await deployed.ended(run_id)
    assert (run["status"], run["error"]) == ("error", {"error": "UnluckyError", "message": "it went wrong"})
    thread = await deployed.thread_row(thread_id)
    assert (thread["status"], thread["error"]) == ("error", run["error"])
    state = (await deployed.states(thread_id))[-1]
    assert state["next"] == ["fail"]
    assert "UnluckyError" in state["tasks"][0]["error"]


async def test_endless_graphs_end_at_the_recursion_limit(deployed: Deployed) -> None:
    _, run_id = await deployed.run("endless", input={}, config={"recursion_limit": 4})
    assert (await deployed.ended(run_id))["error"]["error"] == "GraphRecursionError"


async def test_no_input_on_a_fresh_thread_changes_nothing(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("echo")
    assert (await deployed.ended(run_id))["status"] == "success"
    assert (await deployed.thread_row(thread_id))["status"] == "idle"


async def test_a_factory_gets_the_runs_config_and_the_projects_environment(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("made", input={}, config={"configurable": {"user": "ada"}})
    await deployed.ended(run_id)
    assert (await deployed.thread_row(thread_id))["values"] == {"answer": "hello ada"}


async def test_values_without_a_json_form_never_fail_a_run(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("odd", input={}, stream_mode=["values", "custom"])
    assert (await deployed.ended(run_id))["status"] == "success"
    answer = (await deployed.thread_row(thread_id))["values"]["answer"]
    assert answer == {"nul": "a\ufffdb", "point": {"x": 1}, "nan": None}
    [custom] = [event["data"] for event in await deployed.events(run_id) if event["event"] == "custom"]
    assert custom["bytes"] == "YWI="
    assert custom["opaque"] == "opaque"
    assert custom["3"] == "key"


async def test_exit_durability_stores_one_state(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("steps", input={"done": []}, durability="exit")
    await deployed.ended(run_id)
    [state] = await deployed.states(thread_id)
    assert state["values"]["done"][-1] == "step5"
    assert (await deployed.thread_row(thread_id))["status"] == "idle"


async def test_a_checkpoint_in_the_past_can_be_forked(deployed: Deployed) -> None:
    thread_id, run_id = await deployed.run("steps", input={"done": []})
    await deployed.ended(run_id)
    past = (await deployed.states(thread_id))[3]
    _, forked = await deployed.run("steps", thread_id, checkpoint={"checkpoint_id": past["checkpoint_id"]})
    assert (await deployed.ended(forked))["status"] == "success"
    assert (await deployed.thread_row(thread_id))["values"]["done"] == [f"step{n}" for n in range(1, 6)]


async def test_events_are_numbered_without_gaps_over_all_runs_of_a_thread(deployed: Deployed) -> None:
    thread_id, first = await deployed.run("chunks", input={"count": 300}, stream_mode=["custom"])
    await deployed.ended(first)
    _, second = await deployed.run("chunks", thread_id, input={"count": 2}, stream_mode=["custom"])
    await deployed.ended(second)
    rows = await deployed.rows(
        "SELECT seq, event, data FROM thread_events WHERE thread_id = %s ORDER BY seq", thread_id
    )
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    chunks = [row["data"]["chunk"] for row in rows if row["event"] == "custom"]
    assert chunks == [*range(300), 0, 1]
    assert (await deployed.thread_row(thread_id))["event_seq"] == len(rows)


async def test_a_run_whose_row_never_appears_is_dropped(deployed: Deployed) -> None:
    thread_id = await deployed.thread()
    handle = await deployed.submit(thread_id, deployed.revision_id)
    _, run_id = await deployed.run("echo", thread_id, input={"messages": "next"})
    assert (await deployed.ended(run_id, 40))["status"] == "success"

    async def closed() -> bool:
        return (await handle.describe()).close_time is not None

    assert await eventually(closed)

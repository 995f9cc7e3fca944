"""State, history and state updates, with the unmodified SDK (contract §3.3)."""

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError, ConflictError, NotFoundError

from storage.ids import new_id
from tests.agent_server.conftest import Deployment


async def _ran(sdk: LangGraphClient, graph: str, given: dict | None, **options) -> str:
    thread = await sdk.threads.create()
    await sdk.runs.wait(thread["thread_id"], graph, input=given, raise_error=False, **options)
    return thread["thread_id"]


async def test_a_thread_without_runs_has_an_empty_state(sdk: LangGraphClient) -> None:
    thread = await sdk.threads.create()
    state = await sdk.threads.get_state(thread["thread_id"])
    assert state == {
        "values": {},
        "next": [],
        "tasks": [],
        "metadata": None,
        "created_at": None,
        "checkpoint": None,
        "parent_checkpoint": None,
        "interrupts": [],
        "checkpoint_id": None,
        "parent_checkpoint_id": None,
    }
    assert await sdk.threads.get_history(thread["thread_id"]) == []


async def test_the_state_holds_what_the_graph_made(sdk: LangGraphClient) -> None:
    thread_id = await _ran(sdk, "counter", {"inputs": ["a", "b"]})
    state = await sdk.threads.get_state(thread_id)
    assert state["values"] == {"inputs": ["a", "b"], "count": 2}
    assert state["next"] == []
    assert state["checkpoint"]["thread_id"] == thread_id
    assert state["metadata"]["source"] == "loop"
    assert state["metadata"]["graph_id"] == "counter"
    assert state["parent_checkpoint"]["checkpoint_id"] == state["parent_checkpoint_id"]


async def test_the_history_of_five_nodes_has_seven_checkpoints(sdk: LangGraphClient) -> None:
    thread_id = await _ran(sdk, "steps", {"done": []})
    history = await sdk.threads.get_history(thread_id, limit=100)
    assert [state["metadata"]["step"] for state in history] == [5, 4, 3, 2, 1, 0, -1]
    assert [len(state["values"].get("done", [])) for state in history] == [5, 4, 3, 2, 1, 0, 0]
    assert history[1]["next"] == ["step5"]


async def test_the_history_is_paged_and_filtered(sdk: LangGraphClient, deployment: Deployment) -> None:
    thread_id = await _ran(sdk, "steps", {"done": []})
    everything = await sdk.threads.get_history(thread_id, limit=100)
    page = await sdk.threads.get_history(thread_id, limit=2, before=everything[1]["checkpoint"])
    assert page == everything[2:4]
    by_id = await sdk.threads.get_history(thread_id, limit=2, before=everything[1]["checkpoint_id"])
    assert by_id == page
    inputs = await sdk.threads.get_history(thread_id, limit=100, metadata={"source": "input"})
    assert [state["metadata"]["step"] for state in inputs] == [-1]
    as_config = {"before": {"configurable": {"checkpoint_id": everything[5]["checkpoint_id"]}}, "limit": 9}
    answer = await deployment.client.post(f"/threads/{thread_id}/history", json=as_config)
    assert answer.json() == everything[6:]
    answer = await deployment.client.post(f"/threads/{thread_id}/history", json={})
    assert answer.json() == everything[:1]
    answer = await deployment.client.get(f"/threads/{thread_id}/history", params={"limit": 3})
    assert answer.json() == everything[:3]
    assert (await sdk.threads.get_history(str(thread_id), checkpoint={"checkpoint_ns": "none:such"})) == []


async def test_the_state_at_a_checkpoint(sdk: LangGraphClient) -> None:
    thread_id = await _ran(sdk, "steps", {"done": []})
    third = (await sdk.threads.get_history(thread_id, limit=100))[3]
    assert await sdk.threads.get_state(thread_id, checkpoint=third["checkpoint"]) == third
    assert await sdk.threads.get_state(thread_id, checkpoint_id=third["checkpoint_id"]) == third
    unknown = await sdk.threads.get_state(thread_id, checkpoint_id=str(new_id()))
    assert unknown["values"] == {}


async def test_selected_fields_only(sdk: LangGraphClient) -> None:
    thread_id = await _ran(sdk, "counter", {"inputs": ["a"]})
    assert await sdk.threads.get_state(thread_id, select=["next", "values.count"]) == {
        "next": [],
        "values": {"count": 1},
    }
    assert await sdk.threads.get_history(thread_id, limit=1, select=["values.count"]) == [
        {"values": {"count": 1}}
    ]


async def test_subgraph_states_hang_below_their_tasks(sdk: LangGraphClient) -> None:
    thread_id = await _ran(sdk, "nested", {"question": "why?"})
    bare = await sdk.threads.get_state(thread_id)
    assert bare["next"] == ["middle"]
    assert bare["tasks"][0]["state"] is None
    namespace = bare["tasks"][0]["checkpoint"]["checkpoint_ns"]
    state = await sdk.threads.get_state(thread_id, subgraphs=True)
    middle = state["tasks"][0]["state"]
    assert middle["checkpoint"]["checkpoint_ns"] == namespace
    assert middle["next"] == ["inner"]
    assert middle["tasks"][0]["state"]["next"] == ["ask"]
    history = await sdk.threads.get_history(thread_id, checkpoint={"checkpoint_ns": namespace}, limit=10)
    assert history[0] == {**middle, "tasks": [{**middle["tasks"][0], "state": None}]}


async def test_an_update_is_a_new_checkpoint_as_of_a_node(sdk: LangGraphClient) -> None:
    thread_id = await _ran(sdk, "steps", {"done": []})
    written = await sdk.threads.update_state(thread_id, {"done": ["mine"]}, as_node="step3")
    state = await sdk.threads.get_state(thread_id)
    assert state["checkpoint_id"] == written["checkpoint"]["checkpoint_id"]
    assert state["values"]["done"][-1] == "mine"
    assert state["next"] == ["step4"]
    assert state["metadata"]["source"] == "update"
    thread = await sdk.threads.get(thread_id)
    assert thread["status"] == "interrupted"
    assert thread["values"] == state["values"]
    assert len(await sdk.threads.get_history(thread_id, limit=100)) == 8


async def test_an_update_of_an_older_checkpoint_forks_and_becomes_the_latest(sdk: LangGraphClient) -> None:
    thread_id = await _ran(sdk, "steps", {"done": []})
    second = (await sdk.threads.get_history(thread_id, limit=100))[3]
    assert second["values"]["done"] == ["step1", "step2"]
    await sdk.threads.update_state(thread_id, {"done": ["fork"]}, checkpoint=second["checkpoint"])
    state = await sdk.threads.get_state(thread_id)
    assert state["values"]["done"] == ["step1", "step2", "fork"]
    assert state["parent_checkpoint_id"] == second["checkpoint_id"]
    await sdk.runs.wait(thread_id, "steps", input=None)
    done = (await sdk.threads.get_state(thread_id))["values"]["done"]
    assert done == ["step1", "step2", "fork", "step3", "step4", "step5"]


async def test_an_update_is_refused_while_a_run_is_in_flight(sdk: LangGraphClient) -> None:
    thread_id = (await sdk.threads.create())["thread_id"]
    run = await sdk.runs.create(thread_id, "steps", input={"ms": 400, "done": []})
    with pytest.raises(ConflictError):
        await sdk.threads.update_state(thread_id, {"done": ["x"]}, as_node="step1")
    await sdk.runs.join(thread_id, run["run_id"])
    assert "x" not in (await sdk.threads.get_state(thread_id))["values"]["done"]


async def test_what_is_wrong_with_an_update_is_said_and_changes_nothing(
    sdk: LangGraphClient, deployment: Deployment
) -> None:
    fresh = (await sdk.threads.create())["thread_id"]
    with pytest.raises(BadRequestError):
        await sdk.threads.update_state(fresh, {"done": []})
    thread_id = await _ran(sdk, "steps", {"done": []})
    before = await sdk.threads.get_history(thread_id, limit=100)
    with pytest.raises(BadRequestError, match="nowhere"):
        await sdk.threads.update_state(thread_id, {"done": ["x"]}, as_node="nowhere")
    with pytest.raises(NotFoundError):
        await sdk.threads.update_state(str(new_id()), {"done": ["x"]})
    answer = await deployment.client.post(f"/threads/{thread_id}/state", json={"values": "text"})
    assert answer.status_code == 422
    assert await sdk.threads.get_history(thread_id, limit=100) == before


async def test_a_thread_may_begin_with_supersteps(sdk: LangGraphClient) -> None:
    supersteps = [
        {"updates": [{"values": {"inputs": ["given"]}, "as_node": "__start__"}]},
        {"updates": [{"values": {"count": 41}, "as_node": "count"}]},
    ]
    thread = await sdk.threads.create(graph_id="counter", supersteps=supersteps)
    state = await sdk.threads.get_state(thread["thread_id"])
    assert state["values"] == {"inputs": ["given"], "count": 41}
    assert thread["values"] == state["values"]
    assert thread["status"] == "idle"
    with pytest.raises(BadRequestError):
        await sdk.threads.create(supersteps=supersteps)


async def test_a_thread_whose_supersteps_fail_is_not_made(sdk: LangGraphClient) -> None:
    thread_id = str(new_id())
    supersteps = [{"updates": [{"values": {"inputs": ["given"]}, "as_node": "nowhere"}]}]
    with pytest.raises(BadRequestError, match="nowhere"):
        await sdk.threads.create(thread_id=thread_id, graph_id="counter", supersteps=supersteps)
    with pytest.raises(NotFoundError):
        await sdk.threads.get(thread_id)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "state", None),
        ("GET", "state/some-id", None),
        ("POST", "state/checkpoint", {"checkpoint": {}}),
        ("POST", "state", {"values": {}}),
        ("GET", "history", None),
        ("POST", "history", {}),
    ],
)
async def test_an_unknown_thread_is_a_404(
    deployment: Deployment, method: str, path: str, body: dict | None
) -> None:
    answer: httpx.Response = await deployment.client.request(method, f"/threads/{new_id()}/{path}", json=body)
    assert answer.status_code == 404
    assert isinstance(answer.json()["detail"], str)


@pytest.mark.parametrize(
    "body",
    [
        {"before": {"checkpoint_ns": ""}},
        {"before": 5},
        {"limit": 0},
        {"limit": 1001},
        {"metadata": {"a": "\0"}},
        {"select": ["everything"]},
        {"checkpoint": {"checkpoint_ns": "\0"}},
    ],
)
async def test_a_bad_history_search_is_a_422(
    deployment: Deployment, sdk: LangGraphClient, body: dict
) -> None:
    thread = await sdk.threads.create()
    answer = await deployment.client.post(f"/threads/{thread['thread_id']}/history", json=body)
    assert answer.status_code == 422, answer.text
    assert isinstance(answer.json()["detail"], str)

"""Statistics of runs: by group, what they have in common, and how long a query may read."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.errors import InvalidError
from api.services import Services
from api.traces.reading import bounded_reading
from storage.database import Database
from tests.conftest import Workspace
from tests.traces.wire import root_run

RUNS: list[dict[str, Any]] = [
    {"name": "search", "run_type": "tool", "tags": ["a"], "extra": {"metadata": {"customer": "acme"}}},
    {"name": "search", "run_type": "tool", "tags": ["a", "b"], "extra": {"metadata": {"customer": "acme"}}},
    {"name": "answer", "error": "boom", "extra": {"metadata": {"customer": "other", "thread_id": "t-1"}}},
    {"name": "answer"},
    {"name": "answer"},
]


@pytest.fixture
async def session(workspace: Workspace) -> str:
    """The project with the runs; the first search was rated."""
    runs = [root_run(session_name="stats", **fields) for fields in RUNS]
    assert (await workspace.client.post("/runs/batch", json={"post": runs})).status_code == 202
    await workspace.client.post("/feedback", json={"run_id": runs[0]["id"], "key": "good", "score": 1})
    projects = await workspace.client.get("/sessions", params={"name": "stats"})
    return str(projects.json()[0]["id"])


async def test_statistics_come_by_group_largest_first(workspace: Workspace, session: str) -> None:
    async def grouped(**group_by: Any) -> dict[str, Any]:
        body = {"session": [session], "group_by": group_by}
        answer = await workspace.client.post("/runs/stats", json=body)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    by_name = await grouped(attribute="name")
    assert [(name, group["run_count"]) for name, group in by_name.items()] == [("answer", 3), ("search", 2)]
    assert by_name["answer"]["error_rate"] == pytest.approx(1 / 3)
    assert (by_name["search"]["feedback_stats"]["good"]["n"], by_name["answer"]["feedback_stats"]) == (1, {})
    assert list(await grouped(attribute="name", max_groups=1)) == ["answer"]
    by_tag = await grouped(attribute="tag")
    assert {tag: group["run_count"] for tag, group in by_tag.items()} == {"a": 2, "b": 1}
    by_customer = await grouped(attribute="metadata", path="customer")
    assert {name: group["run_count"] for name, group in by_customer.items()} == {"acme": 2, "other": 1}
    for broken in ({"attribute": "metadata"}, {"attribute": "name", "path": "x"}, {"attribute": "colour"}):
        body = {"session": [session], "group_by": broken}
        assert (await workspace.client.post("/runs/stats", json=body)).status_code == 422


async def test_facets_say_what_runs_have_in_common_and_how_to_find_them(
    workspace: Workspace, session: str
) -> None:
    body = {"session": [session], "select": ["run_count", "run_facets"]}
    facets = (await workspace.client.post("/runs/stats", json=body)).json()["run_facets"]
    counts = {(facet["key"], facet["value"]): facet["n"] for facet in facets}
    assert counts["name", "answer"] == 3
    assert counts["tag", "a"] == 2
    assert counts["status", "error"] == 1
    for facet in facets:
        asked = {"session": [session], "filter": facet["query"]}
        assert (await workspace.client.post("/runs/stats", json=asked)).json()["run_count"] == facet["n"]
    shown = await workspace.client.get(
        "/sessions", params={"name": "stats", "include_stats": True, "facets": True}
    )
    assert {facet["key"] for facet in shown.json()[0]["run_facets"]} == {"name", "run_type", "status", "tag"}


async def test_a_run_names_its_thread(workspace: Workspace, session: str) -> None:
    answer = await workspace.client.post("/runs/query", json={"session": [session]})
    assert sorted(str(run["thread_id"]) for run in answer.json()["runs"]) == ["None"] * 4 + ["t-1"]


async def test_a_query_that_reads_too_long_is_refused(database: Database) -> None:
    services = SimpleNamespace(settings=SimpleNamespace(trace_query_seconds=0.05), database=database)
    with pytest.raises(InvalidError, match=r"0\.05 seconds"):
        async with bounded_reading(cast(Services, services)) as connection:
            await connection.execute("SELECT pg_sleep(60)")

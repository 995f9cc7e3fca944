"""Bodies that are not what they say: a clear 4xx, bounded memory, nothing stored."""

import gzip
import json
import random
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import zstandard

from tests.conftest import Workspace
from tests.traces.wire import BOUNDARY, MULTIPART, json_part, multipart, root_run

Query = Callable[..., Any]


async def nothing_stored(workspace: Workspace) -> bool:
    answer = await workspace.client.post("/runs/query", json={})
    return bool(answer.status_code == 200 and answer.json()["runs"] == [])


async def post(workspace: Workspace, body: bytes, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return await workspace.client.post("/runs/multipart", content=body, headers={**MULTIPART, **names})


def good_body() -> bytes:
    run = root_run()
    return multipart([json_part(f"post.{run['id']}", run), json_part(f"post.{run['id']}.outputs", {"a": 1})])


def broken_bodies() -> dict[str, bytes]:
    run = root_run()
    name = f"post.{run['id']}"
    good = good_body()
    return {
        "empty": b"",
        "no boundary at all": b"hello",
        "cut in the middle": good[: len(good) // 2],
        "no end": good[: -len(BOUNDARY) - 6],
        "another boundary": good.replace(BOUNDARY.encode(), b"x" * len(BOUNDARY)),
        "wrong length": good.replace(b"Content-Length: 8", b"Content-Length: 7"),
        "huge length": good.replace(b"Content-Length: 8", b"Content-Length: 99999999999999"),
        "negative length": good.replace(b"Content-Length: 8", b"Content-Length: -8"),
        "encoded part": good.replace(b"Content-Type: application/json", b"Content-Encoding: gzip"),
        "part without a name": good.replace(b'; name="', b'; title="'),
        "unknown event": multipart([json_part(f"delete.{run['id']}", run)]),
        "id is no uuid": multipart([json_part("post.123", run)]),
        "unknown document": multipart([json_part(name, run), json_part(f"{name}.secrets", {})]),
        "document without run": multipart([json_part(f"{name}.inputs", {})]),
        "not json": multipart([(name, "application/json", b"{nope")]),
        "not an object": multipart([json_part(name, [1])]),
        "another id inside": multipart([json_part(name, {**run, "id": str(uuid.uuid4())})]),
        "unknown run type": multipart([json_part(name, {**run, "run_type": "agent"})]),
        "broken dotted order": multipart([json_part(name, {**run, "dotted_order": "2026"})]),
        "foreign dotted order": multipart(
            [json_part(name, {**run, "dotted_order": root_run()["dotted_order"]})]
        ),
        "wrong trace": multipart([json_part(name, {**run, "trace_id": str(uuid.uuid4())})]),
        "broken time": multipart([json_part(name, {**run, "start_time": "yesterday"})]),
        "tags are no strings": multipart([json_part(name, {**run, "tags": [1]})]),
        "events are no array": multipart([json_part(name, run), json_part(f"{name}.events", {})]),
        "attachment with a dot": multipart(
            [json_part(name, run), (f"attachment.{run['id']}.a.png", "image/png", b"x")]
        ),
        "feedback without a key": multipart(
            [json_part(name, run), json_part(f"feedback.{uuid.uuid4()}", {"run_id": run["id"], "score": 1})]
        ),
        "good run, then a broken one": multipart(
            [json_part(name, run), json_part(f"post.{uuid.uuid4()}", {"run_type": 5})]
        ),
        "deeply nested": multipart(
            [json_part(name, run), (f"{name}.inputs", "application/json", b"[" * 100_000)]
        ),
    }


@pytest.mark.parametrize("kind", sorted(broken_bodies()))
async def test_a_broken_body_is_refused_and_stores_nothing(workspace: Workspace, kind: str) -> None:
    answer = await post(workspace, broken_bodies()[kind])
    assert 400 <= answer.status_code < 500, answer.text
    problem = answer.json()
    assert isinstance(problem["error"], str)
    assert problem["error"] == problem["detail"]
    assert await nothing_stored(workspace)


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", b"not gzip", 400),
        ("gzip", gzip.compress(good_body())[:-10], 400),
        ("gzip", gzip.compress(good_body()) + b"more", 400),
        ("zstd", b"not zstd", 400),
        ("zstd", zstandard.ZstdCompressor().compress(good_body())[:-10], 400),
        ("br", good_body(), 415),
        ("gzip", gzip.compress(bytes(300 * 1024 * 1024), 9), 413),
        ("zstd", zstandard.ZstdCompressor().compress(bytes(1024 * 1024 * 1024)), 413),
    ],
    ids=["no gzip", "cut gzip", "gzip and more", "no zstd", "cut zstd", "unknown", "gzip bomb", "zstd bomb"],
)
async def test_a_broken_encoding_is_refused_and_stores_nothing(
    workspace: Workspace, encoding: str, body: bytes, status: int
) -> None:
    answer = await post(workspace, body, Content_Encoding=encoding)
    assert answer.status_code == status, answer.text
    assert await nothing_stored(workspace)


async def test_too_many_parts_are_refused(workspace: Workspace) -> None:
    parts = [("feedback." + str(uuid.uuid4()), "application/json", b"{}")] * 50_001
    body = zstandard.ZstdCompressor().compress(multipart(parts))
    answer = await post(workspace, body, Content_Encoding="zstd")
    assert answer.status_code == 422
    assert await nothing_stored(workspace)


async def test_random_damage_never_fails_the_server(workspace: Workspace) -> None:
    chance = random.Random(3)
    for _ in range(150):
        body = bytearray(good_body())
        for _ in range(chance.randrange(1, 6)):
            place = chance.randrange(len(body))
            match chance.randrange(3):
                case 0:
                    body[place] = chance.randrange(256)
                case 1:
                    del body[place : place + chance.randrange(1, 40)]
                case 2:
                    body[place:place] = chance.randbytes(chance.randrange(1, 40))
        answer = await post(workspace, bytes(body))
        assert answer.status_code < 500, (answer.text, bytes(body))


async def test_odd_but_honest_values_are_kept(workspace: Workspace, query: Query) -> None:
    """NUL characters, halves of surrogate pairs, NaN and huge integers: JSON as JavaScript and Python write it."""
    run = root_run(name="nul\x00name", error="bad\x00", session_name="odd", end_time=1772359200123)
    text = b'{"nul": "a\\u0000b", "half": "\\ud83d", "nan": NaN, "huge": 123456789012345678901234567890}'
    name = f"post.{run['id']}"
    answer = await post(
        workspace, multipart([json_part(name, run), (f"{name}.inputs", "application/json", text)])
    )
    assert answer.status_code == 202, answer.text
    found = (await query(id=[run["id"]]))[0]
    assert found["name"] == "nulname"
    assert found["error"] == "bad"
    assert found["inputs"]["nul"] == "a\x00b"
    assert found["inputs"]["half"] == "\ufffd"
    assert found["inputs"]["nan"] is None
    assert found["end_time"].startswith("2026-03-01T10:00:00.123")
    matching = await query(session=[found["session_id"]], filter='eq(input_key, "nul")')
    assert [one["id"] for one in matching] == [run["id"]]


@pytest.mark.parametrize("path", ["/runs/batch", "/api/runs/batch", "/api/v1/runs/batch"])
async def test_every_address_of_the_contract_ingests(workspace: Workspace, query: Query, path: str) -> None:
    run = root_run()
    patch = {"id": run["id"], "outputs": {"late": True}, "dotted_order": run["dotted_order"]}
    answer = await workspace.client.post(path, json={"post": [run], "patch": [patch]})
    assert answer.status_code == 202
    found = (await query(id=[run["id"]]))[0]
    assert found["outputs"] == {"late": True}
    assert found["status"] == "success"


async def test_single_runs_derive_their_place_in_the_tree(workspace: Workspace, query: Query) -> None:
    parent, child = root_run(), root_run()
    for run in (parent, child):
        del run["trace_id"], run["dotted_order"]
    child["parent_run_id"] = parent["id"]
    for run in (parent, child):
        assert (await workspace.client.post("/runs", json=run)).status_code == 202
    answer = await workspace.client.patch(f"/runs/{child['id']}", json={"outputs": {"b": 2}})
    assert answer.status_code == 202
    first, second = sorted(await query(trace=parent["id"]), key=lambda run: len(run["dotted_order"]))
    assert first["id"] == parent["id"]
    assert second["dotted_order"].startswith(first["dotted_order"] + ".")
    assert second["parent_run_ids"] == [parent["id"]]
    assert second["outputs"] == {"b": 2}


async def test_filters_and_cursors_that_cannot_be_understood_are_400(workspace: Workspace) -> None:
    for body in ({"filter": "eq(name"}, {"trace_filter": "x"}, {"tree_filter": "eq(a, 1)"}, {"cursor": "!"}):
        answer = await workspace.client.post("/api/v1/runs/query", json=body)
        assert answer.status_code == 400, answer.text
    answer = await workspace.client.post("/api/v1/runs/query/validate", json={"filter": "eq(name"})
    assert answer.json()["valid"] is False
    assert "position" in answer.json()["errors"][0]
    assert json.dumps(answer.json())


ODD: list[Any] = [5, -1.5, True, "", "x", "\x00", [], [[]], {}, {"a": {"b": [1]}}, 10**18, "9" * 5_000]
FIELDS = (
    *(
        "id",
        "trace_id",
        "dotted_order",
        "parent_run_id",
        "name",
        "run_type",
        "session_name",
        "session_id",
        "tags",
    ),
    *(
        "start_time",
        "end_time",
        "inputs",
        "outputs",
        "extra",
        "events",
        "error",
        "serialized",
        "reference_example_id",
    ),
)


@pytest.mark.parametrize("field", FIELDS)
async def test_no_value_of_any_field_fails_the_server(workspace: Workspace, field: str) -> None:
    deep: Any = []
    for _ in range(600):
        deep = [deep]
    for value in [
        *ODD,
        deep,
        {"metadata": {"usage_metadata": {"input_token_details": deep, "input_tokens": 1}}},
    ]:
        run = root_run(**{field: value})
        name = f"post.{root_run()['id'] if field == 'id' else run['id']}"
        parts = [json_part(name, run), json_part(f"{name}.extra", {"metadata": {"deep": deep}})]
        for answer in (
            await post(workspace, multipart(parts)),
            await workspace.client.post("/runs/batch", json={"post": [run]}),
            await workspace.client.post("/feedback", json={"run_id": run["id"], "key": "k", field: value}),
            await workspace.client.post(
                "/feedback", json={"run_id": root_run()["id"], "key": "k", "value": value}
            ),
        ):
            assert answer.status_code < 500, (
                field,
                str(value)[:80] if value is not deep else "deep",
                answer.text,
            )


async def test_large_documents_end_a_page_early_and_none_is_lost(workspace: Workspace, query: Query) -> None:
    large = random.Random(5).randbytes(3_000_000).hex()
    for _ in range(5):
        assert (
            await workspace.client.post("/runs", json=root_run(inputs={"large": large}))
        ).status_code == 202
    body: dict[str, Any] = {"is_root": True}
    seen: list[str] = []
    pages = 0
    while body.get("cursor", "first"):
        answer = (await workspace.client.post("/runs/query", json=body)).json()
        seen += [run["id"] for run in answer["runs"]]
        body["cursor"] = answer["cursors"]["next"]
        pages += 1
    assert len(seen) == len(set(seen)) == 5
    assert pages > 1

"""Sections of langgraph.json that change how a deployment behaves (agent server contract §7)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import get_client
from slipway_runtime.auth import load_auth
from slipway_runtime.project import ProjectError, read_project
from slipway_runtime.store import Stores

from activities.project_config import ProjectConfigError, read_project_config
from storage.database import Database
from tests.agent_server.conftest import GUARDED, Deployment, Guarded
from tests.stacks import Stack


async def test_the_projects_own_authentication_decides(
    guarded: Guarded, anonymous: httpx.AsyncClient
) -> None:
    async def search(**headers: str) -> httpx.Response:
        return await anonymous.post(f"{guarded.url}/assistants/search", json={}, headers=headers)

    refused = await search()
    assert (refused.status_code, refused.json()) == (401, {"detail": "Show a token."})
    banned = await search(authorization="Bearer token-banned")
    assert banned.status_code == 403
    assert banned.json()["detail"] == "No POST for you on /assistants/search."
    broken = await search(authorization="Bearer broken")
    assert broken.status_code == 401 and "secret" not in broken.text
    assert (await search(**{"x-api-key": guarded.api_key})).status_code == 401
    assert (await search(authorization="Bearer token-ann")).status_code == 200
    studio = {"x-api-key": guarded.api_key, "x-auth-scheme": "langsmith"}
    assert (await search(**studio)).status_code == 200
    assert (await search(**{**studio, "x-api-key": "slw_wrong"})).status_code == 401
    assert (await anonymous.get(f"{guarded.url}/ok")).status_code == 200


async def test_runs_see_the_user_and_the_headers_that_were_let_through(guarded: Guarded) -> None:
    async with guarded.sdk("token-bob") as sdk:
        result: Any = await sdk.runs.wait(
            None,
            "seen",
            input={},
            config={"configurable": {"langgraph_auth_user_id": "mallory", "own": "1"}},
            headers={"x-user-team": "red", "x-user-secret": "s", "x-other": "o", "x-request-id": "r-1"},
        )
    seen = result["shown"]
    assert (seen["identity"], seen["langgraph_auth_user_id"], seen["own"]) == ("bob", "bob", "1")
    assert seen["langgraph_auth_permissions"] == "['read']"
    assert seen["x-user-team"] == "red" and seen["langgraph_request_id"] == "r-1"
    assert "x-user-secret" not in seen and "x-other" not in seen and "authorization" not in seen


async def test_a_recognised_user_is_remembered(guarded: Guarded) -> None:
    async with guarded.sdk(f"token-{uuid4().hex}") as sdk:
        results: list[Any] = [await sdk.runs.wait(None, "seen", input={}) for _ in range(2)]
    users = [json.dumps(result["shown"]["langgraph_auth_user"]) for result in results]
    assert users[0] == users[1], "the handler counts its calls into the user"


async def test_a_cron_belongs_to_who_made_it(guarded: Guarded) -> None:
    async with guarded.sdk("token-cleo") as sdk:
        cron: Any = await sdk.crons.create("seen", schedule="0 0 1 1 *")
        assert cron["user_id"] == "cleo"
        await sdk.crons.delete(cron["cron_id"])


async def test_custom_routes_are_answered_by_the_projects_own_application(
    guarded: Guarded, anonymous: httpx.AsyncClient
) -> None:
    headers = {"authorization": "Bearer token-ann"}

    async def ask(method: str, path: str, **options: Any) -> httpx.Response:
        return await anonymous.request(method, f"{guarded.url}{path}", headers=headers, **options)

    answer = await ask("POST", "/site/echo?a=1&a=2", content=b"\x00\xffbody")
    assert answer.status_code == 201 and answer.content == b"\x00\xffbody"
    assert answer.headers["x-query"] == "a=1&a=2" and answer.headers["x-started"] == "yes"
    assert answer.headers.get_list("set-cookie") == ["one=1", "two=2"]
    assert (await ask("GET", "/site/broken")).status_code == 500, "the application's own failure"
    assert (await ask("GET", "/site/nothing")).json() == {"custom": "not found"}
    assert (await ask("GET", "/threads/search")).status_code in (405, 422), (
        "the server's own routes come first"
    )
    assert (await anonymous.post(f"{guarded.url}/site/echo")).status_code == 401
    large = await ask("POST", "/site/echo", content=b"x" * (4 * 1024 * 1024 + 1))
    assert large.status_code == 413


async def test_below_the_mount_prefix_everything_is_answered_alike(
    guarded: Guarded, anonymous: httpx.AsyncClient
) -> None:
    url = f"{guarded.url}/v1/agents"
    async with get_client(url=url, api_key=None, headers={"Authorization": "Bearer token-fay"}) as sdk:
        thread_id = (await sdk.threads.create())["thread_id"]
        result: Any = await sdk.runs.wait(thread_id, "seen", input={})
        assert result["shown"]["identity"] == "fay"
        events = [part.event async for part in sdk.runs.stream(thread_id, "seen", input={})]
        assert events[0] == "metadata" and "values" in events
        await sdk.threads.delete(thread_id)
    banned = {"authorization": "Bearer token-banned"}
    refused = await anonymous.post(f"{url}/assistants/search", json={}, headers=banned)
    assert refused.json()["detail"] == "No POST for you on /assistants/search."
    headers = {"authorization": "Bearer token-ann"}
    custom = await anonymous.post(f"{url}/site/echo?a=1", content=b"body", headers=headers)
    assert (custom.status_code, custom.content, custom.headers["x-query"]) == (201, b"body", "a=1")
    assert (await anonymous.get(f"{url}/info")).json() == {"detail": "Not Found"}
    assert (await anonymous.post(f"{url}/threads/search", json={})).status_code == 401
    shown = (await guarded.client.get(f"/v2/deployments/{guarded.deployment_id}")).json()
    assert shown["source_config"]["custom_url"] == shown["url"] == url


async def test_groups_that_are_off_are_not_found(guarded: Guarded, anonymous: httpx.AsyncClient) -> None:
    headers = {"authorization": "Bearer token-ann"}
    for path in ("/info", "/metrics", "/docs", "/openapi.json"):
        off = await anonymous.get(f"{guarded.url}{path}", headers=headers)
        assert (off.status_code, off.json()) == (404, {"detail": "Not Found"}), path
    assert (await anonymous.get(f"{guarded.url}/ok")).json()["ok"] is True


async def test_headers_are_logged_where_the_project_names_them(
    guarded: Guarded, anonymous: httpx.AsyncClient, stack: Stack
) -> None:
    mark = uuid4().hex
    headers = {"x-mark": mark, "x-user-secret": "s-" + mark, "x-api-key": "k-" + mark, "other": "o-" + mark}
    answer = await anonymous.post(
        f"{guarded.url}/threads/search", json={}, headers={**headers, "authorization": f"Bearer token-{mark}"}
    )
    assert answer.status_code == 200
    logged = [line for line in (stack.home / "logs" / "api.log").read_text().splitlines() if mark in line]
    assert len(logged) == 1 and f"-{mark}" not in logged[0]


async def test_origins_are_those_of_the_project(
    guarded: Guarded, deployment: Deployment, anonymous: httpx.AsyncClient
) -> None:
    async def preflight(url: str, origin: str) -> httpx.Response:
        headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        return await anonymous.request("OPTIONS", f"{url}/threads", headers=headers)

    allowed = await preflight(guarded.url, "https://app.example.com")
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://app.example.com"
    assert allowed.headers["access-control-allow-credentials"] == "true"
    assert (await preflight(guarded.url, "https://evil.example.com")).status_code == 400
    open_to_all = await preflight(deployment.url, "https://anywhere.example.com")
    assert open_to_all.status_code == 200 and open_to_all.headers["access-control-allow-origin"] == "*"
    answer = await anonymous.get(f"{deployment.url}/ok", headers={"Origin": "https://anywhere.example.com"})
    assert "X-Pagination-Total" in answer.headers["access-control-expose-headers"]


async def test_threads_get_the_projects_time_to_live(guarded: Guarded, database: Database) -> None:
    async with guarded.sdk("token-ann") as sdk:
        thread = await sdk.threads.create()
        own = await sdk.threads.create(ttl={"ttl": 5, "strategy": "delete"})
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT thread_id::text, ttl_minutes, ttl_strategy FROM threads WHERE deployment_id = %s",
            (guarded.deployment_id,),
        )
        found = {
            row["thread_id"]: (row["ttl_minutes"], row["ttl_strategy"]) for row in await cursor.fetchall()
        }
    assert found[thread["thread_id"]] == (120, "delete") and found[own["thread_id"]] == (5, "delete")


async def test_webhooks_follow_the_projects_policy(guarded: Guarded, anonymous: httpx.AsyncClient) -> None:
    refused = await anonymous.post(
        f"{guarded.url}/runs",
        json={"assistant_id": "seen", "webhook": "http://127.0.0.1:9/x"},
        headers={"authorization": "Bearer token-ann"},
    )
    assert refused.status_code == 422 and "blocked" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"http": {"enable_custom_route_auth": False}}, "http.enable_custom_route_auth"),
        ({"http": {"mount_prefix": "/threads/x"}}, "http.mount_prefix"),
        ({"http": {"mount_prefix": "/x/../y"}}, "http.mount_prefix"),
        ({"http": {"mount_prefix": "x"}}, "http.mount_prefix"),
        ({"http": {"mount_prefix": "/x/"}}, "http.mount_prefix"),
        ({"http": {"mount_prefix": "/" + "x" * 200}}, "http.mount_prefix"),
        ({"http": {"colour": "red"}}, "http.colour"),
        ({"http": {"middleware_order": "middleware_first"}}, "http.middleware_order"),
        ({"store": {"index": {"embed": "./graphs.py:nothing"}}}, "store.index.dims"),
        ({"store": {"index": {"embed": "./graphs.py:nothing", "dims": 3}}}, "store.index.embed"),
        ({"checkpointer": {"serde": {"pickle_fallback": True}}}, "checkpointer.serde"),
        ({"auth": {"path": "./graphs.py:seen"}}, "auth.path"),
        ({"priority": {"path": "./graphs.py:seen"}}, "priority"),
        ({"webhooks": {"url": {"allowed_ports": ["x"]}}}, "webhooks.url.allowed_ports"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, refused: Callable[[Path], str], section: dict[str, Any], named: str
) -> None:
    (tmp_path / "graphs.py").write_text((GUARDED / "graphs.py").read_text())
    (tmp_path / "langgraph.json").write_text(json.dumps({"graphs": {"seen": "./graphs.py:seen"}, **section}))
    assert named in refused(tmp_path / "langgraph.json")


@pytest.mark.parametrize("section", ["priority", "encryption"])
def test_the_build_refuses_the_same_sections(tmp_path: Path, section: str) -> None:
    config = {"graphs": {"seen": "./graphs.py:seen"}, section: {"path": "./graphs.py:seen"}}
    (tmp_path / "langgraph.json").write_text(json.dumps(config))
    with pytest.raises(ProjectConfigError, match=section):
        read_project_config(tmp_path, "langgraph.json")


@pytest.fixture
def refused() -> Callable[[Path], str]:
    """What a revision's worker says of a langgraph.json that it refuses."""

    def refusal(config: Path) -> str:
        with pytest.raises(ProjectError) as caught:
            project = read_project(config)
            load_auth(project)
            Stores("d", project)._index()
        return str(caught.value)

    return refusal

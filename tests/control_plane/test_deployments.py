"""Deployments: create, read, list, change, delete; what is refused (control plane contract §1.1)."""

import asyncio
import time
from typing import Any
from uuid import uuid4

import httpx
import pytest

from storage.database import Database
from tests.conftest import Workspace
from tests.control_plane.projects import echo
from tests.control_plane.steps import ask, create, creation, deploy, unique


async def test_creation_answers_the_deployment_with_its_first_revision(workspace: Workspace) -> None:
    name = unique("first")
    deployment = await create(workspace.client, name, secrets=[{"name": "TOKEN", "value": "hush"}])
    assert deployment["name"] == name
    assert (
        deployment["url"]
        == deployment["source_config"]["custom_url"]
        == f"{workspace.api_url}/deployments/{name}"
    )
    assert deployment["latest_revision_id"] and deployment["active_revision_id"] is None
    assert deployment["tenant_id"] == str(workspace.tenant_id) and deployment["tracer_session_id"]
    revision = await workspace.client.get(
        f"/v2/deployments/{deployment['id']}/revisions/{deployment['latest_revision_id']}"
    )
    assert revision.json()["status"] == "CREATING" and "upload-url" in revision.json()["status_message"]


@pytest.mark.parametrize("prefix", ["", "/api-host"])
async def test_both_prefixes_serve_the_same(workspace: Workspace, prefix: str) -> None:
    deployment = await create(workspace.client)
    reply = await workspace.client.get(f"{prefix}/v2/deployments/{deployment['id']}")
    assert reply.status_code == 200 and reply.json()["id"] == deployment["id"]


async def test_a_taken_name_is_a_conflict_for_its_own_workspace_only(
    workspace: Workspace, other_workspace: Workspace
) -> None:
    name = unique("taken")
    await create(workspace.client, name)
    again = await workspace.client.post("/v2/deployments", json=creation(name))
    assert (again.status_code, again.json()) == (
        409,
        {"detail": f"A deployment named '{name}' already exists."},
    )
    await create(other_workspace.client, name)


async def test_another_workspace_sees_nothing(workspace: Workspace, other_workspace: Workspace) -> None:
    deployment = await create(workspace.client)
    path = f"/v2/deployments/{deployment['id']}"
    revision = f"{path}/revisions/{deployment['latest_revision_id']}"
    attempts = [
        ("GET", path),
        ("PATCH", path),
        ("DELETE", path),
        ("GET", f"{path}/revisions"),
        ("POST", f"{path}/revisions"),
        ("GET", revision),
        ("POST", f"{revision}/redeploy"),
        ("POST", f"{path}/upload-url"),
        ("GET", f"{revision}/logs?type=build"),
        ("PATCH", f"{path}/resource-tiers"),
    ]
    for method, target in attempts:
        body = {"compute_tier": "SERVERLESS_M"} if target.endswith("tiers") else {}
        reply = await other_workspace.client.request(method, target, json=body)
        assert reply.status_code == 404, (method, target, reply.text)
        assert reply.json()["detail"] == f"Deployment ID {deployment['id']} not found."
    assert (await other_workspace.client.get("/v2/deployments")).json()["resources"] == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "no/slash"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 200}, "name"),
        ({"source": "svn"}, "source"),
        ({"secrets": None}, "secrets"),
        ({"secrets": [{"name": "A=B", "value": "x"}]}, "secrets"),
        ({"secrets": [{"name": "A", "value": "x\0y"}]}, "secrets"),
        ({"source_config": {"resource_spec": {"cpu": 99}}}, "source_config"),
        ({"source_config": {"resource_spec": {"min_scale": 3, "max_scale": 1}}}, "source_config"),
        ({"source_config": None}, "source_config"),
    ],
)
async def test_what_the_schema_refuses_is_422_and_makes_nothing(
    workspace: Workspace, change: dict[str, Any], field: str
) -> None:
    reply = await workspace.client.post("/v2/deployments", json={**creation(unique("bad")), **change})
    assert reply.status_code == 422, reply.text
    assert any(field in problem["loc"] for problem in reply.json()["detail"])
    assert (await workspace.client.get("/v2/deployments")).json()["resources"] == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"secrets": [{"name": "POSTGRES_URI", "value": "x"}]}, "POSTGRES_URI"),
        ({"secrets": [{"name": "SLIPWAY_TENANT_ID", "value": "x"}]}, "SLIPWAY_TENANT_ID"),
        ({"secrets": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "twice"),
        ({"source_config": {"custom_url": "http://elsewhere"}}, "custom_url"),
        ({"source_config": {"repo_url": "http://elsewhere"}}, "repo_url"),
        ({"source_revision_config": {"image_uri": "a/b"}}, "image_uri"),
        ({"source_revision_config": {"source_tarball_path": "uploads/x"}}, "upload-url"),
        ({"source_revision_config": {"langgraph_config_path": "../langgraph.json"}}, "langgraph_config_path"),
        ({"source": "internal_template"}, "internal_template"),
        ({"source": "github"}, "repo_url"),
        ({"secret_references": [{"name": "A", "secret_name": "b", "secret_key": "c"}]}, "secret_references"),
        ({"source_config": {"deployment_type": "prod", "resource_spec": {"min_scale": 0}}}, "min_scale"),
    ],
)
async def test_broken_rules_are_400_with_the_field(
    workspace: Workspace, change: dict[str, Any], says: str
) -> None:
    reply = await workspace.client.post("/v2/deployments", json={**creation(unique("bad")), **change})
    assert reply.status_code == 400 and says in reply.json()["detail"], reply.text
    assert (await workspace.client.get("/v2/deployments")).json()["resources"] == []


async def test_secrets_are_masked_when_read_and_encrypted_when_stored(
    workspace: Workspace, database: Database
) -> None:
    deployment = await create(workspace.client, secrets=[{"name": "TOKEN", "value": "s3cr3t-value"}])
    assert deployment["secrets"] == [{"name": "TOKEN", "value": "********"}]
    async with database.connection() as connection:
        cursor = await connection.execute(
            "SELECT deployments::text AS d, revisions::text AS r FROM deployments JOIN revisions"
            " ON deployment_id = deployments.id WHERE deployments.id = %s",
            (deployment["id"],),
        )
        row = await cursor.fetchone()
    assert row and "s3cr3t-value" not in row["d"] + row["r"]


async def test_the_list_filters_and_pages(workspace: Workspace) -> None:
    names = [f"{prefix}-{unique('x')}" for prefix in ("alpha", "alpha", "beta")]
    ids = [(await create(workspace.client, name))["id"] for name in names]

    async def found(**query: Any) -> list[str]:
        reply = await workspace.client.get("/v2/deployments", params=query)
        assert reply.status_code == 200, reply.text
        return [deployment["name"] for deployment in reply.json()["resources"]]

    assert await found() == names[::-1]
    assert await found(name=names[0]) == [names[0]]
    assert await found(name="alpha") == []
    assert await found(name_contains="alpha") == names[1::-1]
    assert await found(deployment_ids=f"{ids[0]},{ids[2]}") == [names[2], names[0]]
    assert await found(url=f"{workspace.api_url}/deployments/{names[1]}") == [names[1]]
    assert await found(url="http://elsewhere/deployments/x") == []
    assert await found(remote_reconciled="true") == []
    assert await found(status="UNUSED") == []
    page = (await workspace.client.get("/v2/deployments", params={"limit": 2})).json()
    assert page["offset"] == 2
    rest = (await workspace.client.get("/v2/deployments", params={"limit": 2, "offset": 2})).json()
    assert [d["name"] for d in page["resources"] + rest["resources"]] == names[::-1]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "offset=-1",
        "deployment_ids=x",
        "name=%00",
        "deployment_type=big",
        "offset=9e9",
    ],
)
async def test_bad_list_queries_are_422(workspace: Workspace, query: str) -> None:
    assert (await workspace.client.get(f"/v2/deployments?{query}")).status_code == 422


@pytest.mark.parametrize("path", ["/v2/deployments/x", "/v2/deployments/{id}/revisions/x", "/v2/listeners/x"])
async def test_malformed_ids_are_422(workspace: Workspace, path: str) -> None:
    reply = await workspace.client.get(path.replace("{id}", str(uuid4())))
    assert reply.status_code == 422 and reply.json()["detail"][0]["type"] == "uuid_parsing"


async def test_keys_are_needed(workspace: Workspace) -> None:
    async with httpx.AsyncClient(base_url=workspace.api_url, trust_env=False) as anybody:
        assert (await anybody.get("/v2/deployments")).status_code == 401
        headers = {"X-Api-Key": workspace.api_key, "X-Tenant-Id": str(uuid4())}
        assert (await anybody.get("/v2/deployments", headers=headers)).status_code == 403
        bearer = {"Authorization": f"Bearer {workspace.api_key}"}
        assert (await anybody.get("/v2/deployments", headers=bearer)).status_code == 200


async def test_a_patch_without_code_changes_only_the_record(workspace: Workspace) -> None:
    deployment = await create(workspace.client)
    path = f"/v2/deployments/{deployment['id']}"
    reply = await workspace.client.patch(path, json={"display_name": "Nice name"})
    assert reply.status_code == 200 and reply.json()["display_name"] == "Nice name"
    assert reply.json()["latest_revision_id"] == deployment["latest_revision_id"]
    assert (await workspace.client.patch(path, json={})).json()["display_name"] == "Nice name"
    assert (await workspace.client.patch(path, json={"display_name": ""})).status_code == 422
    for change in ({"name": "other"}, {"source": "github"}, {"source_config": {"deployment_type": "prod"}}):
        refused = await workspace.client.patch(path, json=change)
        assert refused.status_code == 400 and "cannot be changed" in refused.json()["detail"]


async def test_a_mask_that_is_sent_back_keeps_the_secret(workspace: Workspace) -> None:
    deployment = await create(
        workspace.client, secrets=[{"name": "A", "value": "one"}, {"name": "B", "value": "two"}]
    )
    path = f"/v2/deployments/{deployment['id']}"
    kept = await workspace.client.patch(path, json={"secrets": [deployment["secrets"][0]]})
    assert kept.json()["secrets"] == [{"name": "A", "value": "********"}]
    unknown = await workspace.client.patch(path, json={"secrets": [{"name": "C", "value": "********"}]})
    assert unknown.status_code == 400
    # An empty list leaves all as they are (control plane contract §1.1).
    assert len((await workspace.client.patch(path, json={"secrets": []})).json()["secrets"]) == 1


async def test_sizes_change_but_not_their_kind(workspace: Workspace) -> None:
    deployment = await create(workspace.client)
    path = f"/v2/deployments/{deployment['id']}"
    reply = await workspace.client.patch(f"{path}/deployment-tier", json={"deployment_tier": "SERVERLESS_L"})
    assert reply.status_code == 200 and reply.json()["deployment_tier"] == "SERVERLESS_L"
    wrong = await workspace.client.patch(f"{path}/deployment-tier", json={"deployment_tier": "DEDICATED_S"})
    assert wrong.status_code == 400
    assert (await workspace.client.patch(f"{path}/resource-tiers", json={})).status_code == 422
    assert (await workspace.client.get("/v2/deployments/free-count")).json() == {"count": 0}


async def test_deletion_is_staged_and_frees_the_name(workspace: Workspace) -> None:
    deployment = await create(workspace.client, unique("gone"))
    path, name = f"/v2/deployments/{deployment['id']}", deployment["name"]
    await deploy(workspace.client, deployment["id"], echo())
    assert await ask(workspace.client, name) == "one"
    assert (await workspace.client.delete(path, params={"force": "true"})).status_code == 400
    assert (await workspace.client.delete(path)).status_code == 204
    assert (
        await workspace.client.patch(path, json={"secrets": [{"name": "A", "value": "b"}]})
    ).status_code in (
        400,
        404,
    )
    await _gone(workspace.client, path)
    assert (await workspace.client.get(f"/deployments/{name}/info")).status_code == 404
    again = await create(workspace.client, name)
    await deploy(workspace.client, again["id"], echo("two"))
    assert await ask(workspace.client, name) == "two"


async def test_several_are_deleted_at_once(workspace: Workspace) -> None:
    ids = [(await create(workspace.client))["id"] for _ in range(3)]
    partly = await workspace.client.delete(
        "/v2/deployments", params={"deployment_ids": [ids[0], str(uuid4())]}
    )
    assert partly.status_code == 207 and partly.json()["deleted"] == [ids[0]]
    assert (
        await workspace.client.delete("/v2/deployments", params={"deployment_ids": ids[1:]})
    ).status_code == 200
    assert (
        await workspace.client.delete("/v2/deployments", params={"deployment_ids": [str(uuid4())]})
    ).status_code == 404
    assert (await workspace.client.delete("/v2/deployments")).status_code == 422
    for deployment_id in ids:
        await _gone(workspace.client, f"/v2/deployments/{deployment_id}")


async def _gone(client: httpx.AsyncClient, path: str) -> None:
    deadline = time.monotonic() + 60
    while (reply := await client.get(path)).status_code != 404:
        assert reply.json()["status"] in ("AWAITING_DELETE", "AWAITING_FINAL_DELETE"), reply.text
        assert time.monotonic() < deadline
        await asyncio.sleep(0.1)

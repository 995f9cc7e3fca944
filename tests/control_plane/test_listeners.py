"""Listeners: registration, plans, ownership (mission document; control plane contract §1.5)."""

from typing import Any
from uuid import uuid4

import pytest

from storage.database import Database
from storage.tenancy import create_key
from tests.conftest import Workspace
from tests.control_plane.steps import creation, unique, wait_for_status

_BODY: dict[str, Any] = {
    "compute_type": "k8s",
    "compute_id": "cluster-a",
    "compute_config": {"k8s_namespaces": ["agents"]},
}


async def test_a_listener_is_created_read_changed_and_deleted(workspace: Workspace) -> None:
    client = workspace.client
    created = await client.post("/v2/listeners", json={**_BODY, "version": "1.2"})
    assert created.status_code == 201
    listener = created.json()
    assert {**_BODY, "version": "1.2"}.items() <= listener.items()
    path = f"/v2/listeners/{listener['id']}"
    assert (await client.get(path)).json() == listener
    assert (await client.get("/v2/listeners")).json() == {"resources": [listener], "offset": 1}
    again = await client.post("/v2/listeners", json=_BODY)
    assert again.status_code == 409 and "cluster-a" in again.json()["detail"]
    changed = await client.patch(path, json={"compute_config": {"k8s_namespaces": ["other"]}})
    assert (
        changed.json()["compute_config"] == {"k8s_namespaces": ["other"]}
        and changed.json()["version"] == "1.2"
    )
    assert (await client.put(path, json={**_BODY, "compute_id": "cluster-b"})).status_code == 422
    assert (await client.put(path, json=_BODY)).status_code == 200
    assert (await client.delete(path)).status_code == 204
    missing = await client.get(path)
    assert (missing.status_code, missing.json()) == (
        404,
        {"detail": f"Listener ID {listener['id']} not found."},
    )


@pytest.mark.parametrize(
    "change",
    [
        {"compute_type": "vm"},
        {"compute_id": ""},
        {"compute_config": None},
        {"compute_config": {"k8s_namespaces": ["A_B"]}},
    ],
)
async def test_bad_listeners_are_422(workspace: Workspace, change: dict[str, Any]) -> None:
    assert (await workspace.client.post("/v2/listeners", json={**_BODY, **change})).status_code == 422


async def test_plans_below_enterprise_have_no_listeners(workspace: Workspace, database: Database) -> None:
    listener = (await workspace.client.post("/v2/listeners", json=_BODY)).json()
    async with database.connection() as connection:
        await connection.execute("UPDATE tenants SET plan = 'plus' WHERE id = %s", (workspace.tenant_id,))
        # A key is trusted for a few seconds with the plan it had: this one is new.
        key = await create_key(connection, workspace.tenant_id, "after")
    for method, path in (("POST", "/v2/listeners"), ("GET", f"/v2/listeners/{listener['id']}")):
        reply = await workspace.client.request(method, path, json=_BODY, headers={"X-Api-Key": key})
        assert reply.status_code == 403
        assert f"workspace ID '{workspace.tenant_id}'" in reply.json()["detail"]


async def test_another_workspaces_listener_is_unknown(
    workspace: Workspace, other_workspace: Workspace
) -> None:
    listener = (await workspace.client.post("/v2/listeners", json=_BODY)).json()
    path = f"/v2/listeners/{listener['id']}"
    for method in ("GET", "PATCH", "DELETE"):
        assert (await other_workspace.client.request(method, path, json={})).status_code == 404
    assert (await other_workspace.client.get("/v2/listeners")).json()["resources"] == []
    assert (await workspace.client.get(path)).status_code == 200


async def test_images_go_to_the_listener_that_is_named(workspace: Workspace) -> None:
    client = workspace.client
    image = creation(
        unique("image"), source="external_docker", source_revision_config={"image_uri": "registry/agent:1"}
    )
    listener = (await client.post("/v2/listeners", json=_BODY)).json()
    without = await client.post("/v2/deployments", json=image)
    assert without.status_code == 400
    assert without.json()["detail"] == (
        "Source configuration error: 'source_config.listener_id' is required for workspace with available"
        f" listener IDs: ['{listener['id']}']"
    )
    unknown = await client.post(
        "/v2/deployments", json={**image, "source_config": {"listener_id": str(uuid4())}}
    )
    assert unknown.status_code == 400
    foreign = {"listener_id": listener["id"], "listener_config": {"k8s_namespace": "foreign"}}
    assert (await client.post("/v2/deployments", json={**image, "source_config": foreign})).status_code == 400
    good = await client.post(
        "/v2/deployments", json={**image, "source_config": {"listener_id": listener["id"]}}
    )
    assert good.status_code == 201 and good.json()["source_config"]["listener_id"] == listener["id"]
    found = (await client.get("/v2/deployments", params={"remote_reconciled": "true"})).json()["resources"]
    assert [deployment["id"] for deployment in found] == [good.json()["id"]]
    assert (await client.delete(f"/v2/listeners/{listener['id']}")).status_code == 409


async def test_an_image_without_a_cluster_fails_with_the_way_out(workspace: Workspace) -> None:
    body = creation(
        unique("image"), source="external_docker", source_revision_config={"image_uri": "registry/agent:1"}
    )
    deployment = (await workspace.client.post("/v2/deployments", json=body)).json()
    found = await wait_for_status(workspace.client, deployment["id"], deployment["latest_revision_id"])
    assert found["status"] == "DEPLOY_FAILED" and "Kubernetes listener" in found["status_message"]


async def test_push_tokens_say_that_there_is_no_registry(workspace: Workspace) -> None:
    body = creation(unique("docker"), source="internal_docker")
    deployment = (await workspace.client.post("/v2/deployments", json=body)).json()
    reply = await workspace.client.post(f"/v2/deployments/{deployment['id']}/push-token", json={})
    assert reply.status_code == 400 and "no image registry" in reply.json()["detail"]
    other = (await workspace.client.post("/v2/deployments", json=creation(unique("source")))).json()
    wrong = await workspace.client.post(f"/v2/deployments/{other['id']}/push-token", json={})
    assert "only available for 'internal_docker' source deployments" in wrong.json()["detail"]

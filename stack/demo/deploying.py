"""Deploying an agent's folder: create or find the deployment, upload, PATCH, poll (control plane contract §6.1)."""

import asyncio
import io
import tarfile
import time
from pathlib import Path
from typing import Any

import httpx

from stack.demo.http import json_of
from stack.demo.steps import DemoError, Steps

_POLL_SECONDS = 0.25
_DEPLOY_SECONDS = 600.0
_ENDED = {"BUILD_FAILED", "DEPLOY_FAILED", "CREATE_FAILED", "INTERRUPTED", "SKIPPED"}
_NOT_PACKED = {"__pycache__", ".venv", ".git", ".langgraph_api", "node_modules"}


async def deploy(steps: Steps, api: httpx.AsyncClient, name: str, folder: Path) -> dict[str, Any]:
    """A revision of `folder` on the deployment `name`, made if it is missing. Returns the deployment.

    Raises:
        DemoError: a call was refused, or the revision did not reach DEPLOYED.
    """
    with steps.step("create_deployment", f"Deployment {name}"):
        deployment = await _find(api, name) or await _create(api, name)
        steps.keep(deployment_id=deployment["id"], deployment_name=name)
    with steps.step("upload", f"Upload of {folder.name}"):
        object_path = await _upload(api, deployment["id"], pack(folder))
    with steps.step("deploy", "Build, start and switch to the new revision"):
        patched = await json_of(
            api.patch(
                f"/v2/deployments/{deployment['id']}",
                json={
                    "revision_source": "internal_source",
                    "source_revision_config": {
                        "source_tarball_path": object_path,
                        "langgraph_config_path": "langgraph.json",
                    },
                },
            )
        )
        revision_id = patched["latest_revision_id"]
        steps.keep(revision_id=revision_id, revision_states=[])
        await _until_deployed(steps, api, deployment["id"], revision_id)
    deployed: dict[str, Any] = await json_of(api.get(f"/v2/deployments/{deployment['id']}"))
    steps.keep(deployment_url=deployed["source_config"]["custom_url"])
    return deployed


def pack(folder: Path) -> bytes:
    """A tar.gz of a project's files; the same files give the same bytes."""
    if not (folder / "langgraph.json").exists():
        raise DemoError(f"{folder} has no langgraph.json.")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not _NOT_PACKED & set(path.relative_to(folder).parts):
                archive.add(path, str(path.relative_to(folder)), filter=_anonymous)
    return buffer.getvalue()


async def _find(api: httpx.AsyncClient, name: str) -> dict[str, Any] | None:
    found = await json_of(api.get("/v2/deployments", params={"name": name, "limit": 100, "offset": 0}))
    return next((deployment for deployment in found["resources"] if deployment["name"] == name), None)


async def _create(api: httpx.AsyncClient, name: str) -> dict[str, Any]:
    body = {
        "name": name,
        "source": "internal_source",
        "source_config": {"deployment_type": "dev_zero"},
        "source_revision_config": {},
        "secrets": [],
    }
    created: dict[str, Any] = await json_of(api.post("/v2/deployments", json=body))
    return created


async def _upload(api: httpx.AsyncClient, deployment_id: str, tarball: bytes) -> str:
    """The object path under which the platform received the tarball."""
    target = await json_of(
        api.post(f"/v2/deployments/{deployment_id}/upload-url", json={"supports_upload_headers": True})
    )
    headers = {"Content-Type": "application/gzip", **(target.get("upload_headers") or {})}
    async with httpx.AsyncClient(timeout=300.0, trust_env=False) as uploader:
        response = await uploader.put(target["upload_url"], content=tarball, headers=headers)
    if response.is_error:
        raise DemoError(f"The upload was refused: {response.status_code} {response.text[:300]}")
    return str(target["object_path"])


async def _until_deployed(steps: Steps, api: httpx.AsyncClient, deployment_id: str, revision_id: str) -> None:
    deadline = time.monotonic() + _DEPLOY_SECONDS
    states: list[str] = steps.results["revision_states"]
    while True:
        revision = await json_of(api.get(f"/v2/deployments/{deployment_id}/revisions/{revision_id}"))
        status = revision["status"]
        if not states or states[-1] != status:
            states.append(status)
            steps.say(f"revision {revision_id}: {status}")
        if status == "DEPLOYED":
            return
        if status in _ENDED:
            raise DemoError(f"Revision {revision_id} ended {status}: {revision.get('status_message')}")
        if time.monotonic() > deadline:
            raise DemoError(f"Revision {revision_id} is still {status} after {_DEPLOY_SECONDS:g} s.")
        await asyncio.sleep(_POLL_SECONDS)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry

"""A stand-in for the API server of a Kubernetes cluster: keeps objects, checks every request, makes pods."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import uvicorn
import yaml
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from kubernetes_asyncio import client

TOKEN = "cluster-token"
_MODELS = {"deployments": "V1Deployment", "secrets": "V1Secret", "services": "V1Service"}


class Cluster:
    """Objects by (namespace, kind, name). Pods appear with a Deployment and go with it."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.waiting: dict[str, str] | None = None
        self.refused: list[str] = []

    def created(self, namespace: str, kind: str, body: dict[str, Any]) -> None:
        """For clusters that run what they are given."""

    def deleted(self, namespace: str, kind: str, name: str) -> None:
        """As `created`."""

    def problem(self, kind: str, body: dict[str, Any]) -> str | None:
        """What the published schema of the object, as the official client carries it, has against a body."""
        model = getattr(client, _MODELS[kind])
        api = client.ApiClient()
        try:
            typed = api.deserialize(SimpleNamespace(data=json.dumps(body)), model.__name__)
            again = api.sanitize_for_serialization(typed)
        except (ValueError, TypeError, KeyError) as error:
            return f"{type(error).__name__}: {error}"
        return None if again == body else f"fields that {model.__name__} does not know: {again} != {body}"

    def pods(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        key, _, value = selector.partition("=")
        found = []
        for (place, kind, name), body in self.objects.items():
            if (place, kind) == (namespace, "deployments") and body["metadata"]["labels"].get(key) == value:
                state = {"waiting": self.waiting} if self.waiting else {"running": {}}
                status = {"name": "worker", "image": "i", "imageID": "", "ready": True, "restartCount": 0}
                for number in range(body["spec"]["replicas"]):
                    found.append(
                        {
                            "metadata": {"name": f"{name}-{number}", "labels": body["metadata"]["labels"]},
                            "status": {"phase": "Running", "containerStatuses": [{**status, "state": state}]},
                        }
                    )
        return found


def make_app(cluster: Cluster) -> FastAPI:
    app = FastAPI()

    @app.middleware("http")
    async def check(request: Request, call_next: Any) -> Any:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"message": "Unauthorized"}, 401)
        return await call_next(request)

    for group in ("/api/v1", "/apis/apps/v1"):
        _routes(app, cluster, group + "/namespaces/{namespace}/{kind}")
    return app


def _routes(app: FastAPI, cluster: Cluster, path: str) -> None:
    @app.get(path)
    async def list_(namespace: str, kind: str, labelSelector: str = "") -> dict[str, Any]:  # noqa: N803
        if kind == "pods":
            return {"items": cluster.pods(namespace, labelSelector)}
        key, _, value = labelSelector.partition("=")
        items = [
            body
            for (place, its_kind, _), body in cluster.objects.items()
            if (place, its_kind) == (namespace, kind) and body["metadata"]["labels"].get(key) == value
        ]
        return {"items": items}

    @app.post(path)
    async def create(namespace: str, kind: str, request: Request) -> JSONResponse:
        body = await request.json()
        if problem := cluster.problem(kind, body):
            cluster.refused.append(problem)
            return JSONResponse({"message": problem}, 422)
        key = (namespace, kind, body["metadata"]["name"])
        if key in cluster.objects:
            return JSONResponse({"message": "already exists", "reason": "AlreadyExists"}, 409)
        cluster.objects[key] = body
        cluster.created(namespace, kind, body)
        return JSONResponse(body, 201)

    @app.patch(path + "/{name}")
    async def patch(namespace: str, kind: str, name: str, request: Request) -> JSONResponse:
        cluster.objects[(namespace, kind, name)] |= await request.json()
        return JSONResponse(cluster.objects[(namespace, kind, name)])

    @app.delete(path + "/{name}")
    async def delete(namespace: str, kind: str, name: str) -> JSONResponse:
        if cluster.objects.pop((namespace, kind, name), None) is None:
            return JSONResponse({"message": "not found"}, 404)
        cluster.deleted(namespace, kind, name)
        return JSONResponse({"kind": "Status", "status": "Success"})

    @app.get(path + "/{name}/scale")
    async def read_scale(namespace: str, kind: str, name: str) -> JSONResponse:
        found = cluster.objects.get((namespace, kind, name))
        if found is None:
            return JSONResponse({"message": "not found"}, 404)
        return JSONResponse({"metadata": {"name": name}, "spec": {"replicas": found["spec"]["replicas"]}})

    @app.patch(path + "/{name}/scale")
    async def scale(namespace: str, kind: str, name: str, request: Request) -> JSONResponse:
        body = await request.json()
        cluster.objects[(namespace, kind, name)]["spec"]["replicas"] = body["spec"]["replicas"]
        return JSONResponse(body)


def kubeconfig(address: str) -> str:
    """What gives a client access to the stand-in."""
    named = {"name": "here"}
    access = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{**named, "cluster": {"server": address}}],
        "users": [{**named, "user": {"token": TOKEN}}],
        "contexts": [{**named, "context": {"cluster": "here", "user": "here"}}],
    }
    return yaml.safe_dump(access)


@contextlib.asynccontextmanager
async def serving(cluster: Cluster) -> AsyncIterator[str]:
    """The address of a running stand-in."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(make_app(cluster), log_level="error"))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        await task

"""GET /metrics (contract §3.1): the deployment's queue, its workers, and requests that this process answered."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.agent_server.deployment import CurrentDeployment
from api.agent_server.parameters import errors
from api.json_response import OrjsonResponse
from api.services import CurrentServices
from storage.queue_metrics import Queues

router = APIRouter(tags=["System"])

_Key = tuple[UUID, str, str, int]
_requests: Counter[_Key] = Counter()


class CountRequests:
    """Counts answers by deployment, method, route and status; only of deployments that exist."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            deployment_id = scope.get("state", {}).get("deployment_id")
            if message["type"] == "http.response.start" and deployment_id:
                route = getattr(scope.get("route"), "path", "")
                _requests[deployment_id, scope["method"], route, message["status"]] += 1
            await send(message)

        await self._app(scope, receive, counted)


@router.get(
    "/metrics",
    summary="Queue, workers and requests, for Prometheus or as JSON",
    response_model=None,
    responses={
        **errors(),
        200: {
            "description": "The metrics.",
            "content": {"text/plain": {}, "application/json": {"schema": {"type": "object"}}},
        },
    },
)
async def metrics(
    deployment: CurrentDeployment,
    services: CurrentServices,
    form: Annotated[Literal["prometheus", "json"], Query(alias="format")] = "prometheus",
) -> Response:
    async with services.database.connection() as connection:
        queue = await Queues(connection, deployment.scope).metrics()
    slots = queue.replicas * services.settings.worker_slots
    shown = {
        "queue": {
            "n_pending": queue.pending,
            "n_running": queue.running,
            "pending_runs_wait_time_max_secs": queue.wait_max,
            "pending_runs_wait_time_med_secs": queue.wait_median,
            "pending_unblocked_runs_wait_time_max_secs": queue.unblocked_wait_max,
        },
        "workers": {
            "max": slots,
            "active": queue.running,
            "available": max(slots - queue.running, 0),
        },
        "api": {"http_requests_total": _requests_of(deployment.scope.deployment_id)},
    }
    if form == "json":
        return OrjsonResponse(shown)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(shown))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _requests_of(deployment_id: UUID) -> list[dict[str, Any]]:
    return [
        {"method": method, "path": path, "status": status, "value": count}
        for (counted_for, method, path, status), count in sorted(_requests.items(), key=str)
        if counted_for == deployment_id
    ]


class _Collected:
    """What the JSON form shows, as Prometheus metrics."""

    def __init__(self, shown: dict[str, Any]) -> None:
        self._shown = shown

    def collect(self) -> Iterator[Metric]:
        for group, values in (("queue", self._shown["queue"]), ("workers", self._shown["workers"])):
            for name, value in values.items():
                name = name.removeprefix("n_").replace("_secs", "_seconds")
                yield GaugeMetricFamily(f"slipway_{group}_{name}", f"{group}: {name}", value=value or 0)
        requests = CounterMetricFamily(
            "slipway_http_requests", "Requests answered by this process", labels=["method", "path", "status"]
        )
        for request in self._shown["api"]["http_requests_total"]:
            labels = [request["method"], request["path"], str(request["status"])]
            requests.add_metric(labels, request["value"])
        yield requests

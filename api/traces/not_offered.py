"""What the SDKs can ask for and this installation does not have: refused by name, not as an unknown address."""

from fastapi import APIRouter, Request

from api.authentication import CurrentCaller
from api.traces.v2.problems import NotOfferedError

router = APIRouter(include_in_schema=False)
platform_router = APIRouter(include_in_schema=False)
v2_router = APIRouter(include_in_schema=False)

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_HUB = "The hub (prompts, agents, skills) is not offered here: keep them in the agent's repository."
# Below the prefixes of the trace API, and what stands in for each.
_AREAS = {
    "annotation-queues": "Annotation queues are not offered here: write reviews as feedback on runs.",
    "repos": _HUB,
    "commits": _HUB,
    "likes": _HUB,
    "settings": _HUB,
    "workspaces/current/secrets": "Secrets of a workspace are not offered here: give them to a deployment.",
    "agents": "The registry of agents is not offered here: agents are deployments of the control plane.",
    "runs/rules": "Rules for runs are not offered here: filter and export runs, or evaluate in the application.",
    "sessions/resolutions": "Addresses of agents are not offered here: name the project.",
    "sessions/{session_id}/insights": "Insights are not offered here: query runs, or export them.",
}
_PLATFORM_AREAS = {
    "annotation-queues": "Annotation queues are not offered here: write reviews as feedback on runs.",
    "evaluators": "Online evaluators are not offered here: evaluate in the application, and send feedback.",
    "issues": "Issues are not offered here: filter runs by error.",
    "hub": _HUB,
}
_V2_AREAS = {
    "sandboxes": "Sandboxes are not offered here.",
    "threads/{thread_id}/share": "Threads are not shared here: share their traces one by one.",
}


def _refuse(on: APIRouter, path: str, sentence: str) -> None:
    async def refuse(request: Request, caller: CurrentCaller) -> None:
        raise NotOfferedError(sentence)

    for address in (f"/{path}", f"/{path}/{{rest:path}}"):
        on.add_api_route(address, refuse, methods=_METHODS)


for _path, _sentence in _AREAS.items():
    _refuse(router, _path, _sentence)
for _path, _sentence in _PLATFORM_AREAS.items():
    _refuse(platform_router, _path, _sentence)
for _path, _sentence in _V2_AREAS.items():
    _refuse(v2_router, _path, _sentence)

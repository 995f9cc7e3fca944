"""All routes of the control plane, under each address at which its clients look for them."""

from fastapi import APIRouter

from api.control_plane import dashboard, deployments, listeners, logs, projects, revisions, uploads

# The hosted address is a host of its own; self-hosted installations serve the same under /api-host.
PREFIXES = ("", "/api-host")


def control_plane_router() -> APIRouter:
    """`/v2`, `/v1`, and both under `/api-host`."""
    everything = APIRouter()
    everything.include_router(dashboard.router)
    for prefix in PREFIXES:
        for area in (deployments, revisions, uploads, logs, listeners):
            everything.include_router(area.router, prefix=f"{prefix}/v2")
        for router in (logs.v1_router, projects.router):
            everything.include_router(router, prefix=f"{prefix}/v1")
    return everything

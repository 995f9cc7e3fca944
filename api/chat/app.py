"""The chat application: its page, its routes, and those of its deployment's agent server beside them."""

from fastapi import FastAPI
from starlette.routing import Route

from api.agent_server.deployment import DeploymentCache
from api.authentication import Caller
from api.chat.forwarding import PREFIX, Forwarding
from api.chat.page import router as page_router
from api.chat.threads import find_deployment
from api.chat.threads import router as threads_router
from api.chat.trace import router as trace_router
from api.services import Services
from storage.served import ServedDeployment


def install_chat(app: FastAPI, agent_server: FastAPI) -> None:
    """Add /chat and /api/threads. What /api/threads does not answer itself goes to the agent server."""
    cache: DeploymentCache = agent_server.state.deployments
    app.state.deployments = cache

    async def deployment(services: Services, caller: Caller) -> ServedDeployment:
        return await find_deployment(services, caller, cache)

    forwarding = Forwarding(agent_server, deployment)
    app.include_router(page_router)
    app.include_router(threads_router)
    app.include_router(trace_router)
    app.router.routes.append(Route(PREFIX, forwarding, methods=["POST"]))
    app.mount(PREFIX, forwarding)

"""The agent server as an application of its own, mounted once per deployment name."""

from fastapi import FastAPI

from api.agent_server.a2a.endpoints import router as a2a_router
from api.agent_server.assistant_graphs import router as assistant_graphs_router
from api.agent_server.assistants import router as assistants_router
from api.agent_server.content_type import AssumeJson
from api.agent_server.cors import DeploymentCors
from api.agent_server.crons import router as crons_router
from api.agent_server.custom_auth import CustomAuthenticator
from api.agent_server.deployment import DeploymentCache
from api.agent_server.mcp.endpoints import router as mcp_router
from api.agent_server.metrics import CountRequests
from api.agent_server.metrics import router as metrics_router
from api.agent_server.mount_prefix import unrouted
from api.agent_server.openapi import install_openapi
from api.agent_server.runs import router as runs_router
from api.agent_server.state import router as state_router
from api.agent_server.stateless_runs import router as stateless_runs_router
from api.agent_server.store import router as store_router
from api.agent_server.streams.endpoints import router as streams_router
from api.agent_server.streams.protocol_endpoints import router as protocol_router
from api.agent_server.streams.websocket import router as websocket_router
from api.agent_server.system import router as system_router
from api.agent_server.threads import router as threads_router
from api.agent_server.webhooks import router as webhooks_router
from api.errors import install_error_handlers
from api.json_response import OrjsonResponse


def create_agent_server() -> FastAPI:
    """The sub-application; `{deployment_name}` of its mount path says for which deployment it answers."""
    app = FastAPI(
        title="Agent server",
        version="0.1.0",
        description="Assistants, threads, runs and store of one deployment.",
        default_response_class=OrjsonResponse,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.deployments = DeploymentCache()
    app.state.authenticator = CustomAuthenticator()
    app.add_middleware(AssumeJson)
    app.add_middleware(DeploymentCors)
    app.add_middleware(CountRequests)
    install_error_handlers(app, string_details=True)
    for router in (
        system_router,
        metrics_router,
        assistants_router,
        assistant_graphs_router,
        threads_router,
        state_router,
        crons_router,
        runs_router,
        stateless_runs_router,
        streams_router,
        protocol_router,
        websocket_router,
        store_router,
        a2a_router,
        mcp_router,
        webhooks_router,
    ):
        app.include_router(router)
    install_openapi(app)
    app.router.default = unrouted
    return app

"""The application: every area's routes over one set of services."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI
from temporalio.client import Client
from temporalio.envconfig import ClientConfig

from api.agent_server.app import create_agent_server
from api.body_limit import BodyLimitMiddleware
from api.chat.app import install_chat
from api.control_plane.app import control_plane_router
from api.control_plane.uploads import UPLOADS_PATH
from api.docs_page import docs_router
from api.errors import install_error_handlers
from api.exports.endpoints import router as exports_router
from api.gateway import TemporalGateway
from api.json_response import OrjsonResponse
from api.key_cache import KeyCache
from api.notifications import Notifications
from api.operators.endpoints import router as operators_router
from api.services import Services
from api.submissions import Submissions
from api.traces.app import traces_router
from api.traces.gate import IngestGate
from api.traces.quota import IngestQuota
from api.traces.single_runs import SingleRuns
from settings import Settings
from storage.database import Database
from storage.objects import open_object_store
from storage.secrets import load_secret_box


def create_app(settings: Settings) -> FastAPI:
    """The ASGI application. Starts without Temporal, and answers 503 until it can be reached."""
    agent_server = create_agent_server()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_services(settings) as services:
            app.state.services = services
            agent_server.state.services = services
            yield

    app = FastAPI(
        title="Slipway",
        version="0.1.0",
        description="Control plane, agent server, trace store and bulk export for LangGraph agents.",
        lifespan=lifespan,
        default_response_class=OrjsonResponse,
        docs_url=None,
        redoc_url=None,
    )
    install_error_handlers(app)
    app.add_middleware(
        BodyLimitMiddleware, limit_bytes=settings.max_request_body_bytes, exempt=(UPLOADS_PATH,)
    )
    # Routes are tried one after another, at a millisecond for all of them: those of runs and of traces come first.
    app.mount("/deployments/{deployment_name}", agent_server)
    app.include_router(traces_router())
    app.include_router(docs_router("Slipway"))
    app.include_router(operators_router)
    app.include_router(control_plane_router())
    app.include_router(exports_router)
    install_chat(app, agent_server)
    return app


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Everything that endpoints use, closed again in reverse order."""
    url = settings.require_database_url()
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(Database(url, settings.database_pool_size))
        yield Services(
            settings=settings,
            database=database,
            gateway=TemporalGateway(await connect_temporal(settings, lazy=True)),
            secrets=load_secret_box(
                settings.secret_keys.get_secret_value() if settings.secret_keys else None, settings.home
            ),
            keys=KeyCache(database, settings.key_cache_seconds),
            notifications=await stack.enter_async_context(Notifications(url)),
            objects=await stack.enter_async_context(open_object_store(settings)),
            submissions=Submissions(max(1, settings.database_pool_size // 2)),
            ingest_gate=IngestGate(
                settings.ingest_concurrency,
                settings.ingest_held_bytes,
                IngestQuota(settings.ingest_bytes_per_second),
            ),
            single_runs=SingleRuns(),
        )


async def connect_temporal(settings: Settings, *, lazy: bool = False) -> Client:
    """A client of the configured Temporal: address from the settings, TLS and the rest from temporalio.envconfig."""
    options = ClientConfig.load_client_connect_config()
    options["target_host"] = settings.temporal_target
    return await Client.connect(**options, lazy=lazy)

"""The chat's agent: deployed on the first start, through the public API, while the stack already serves."""

import asyncio
import contextlib
import os
from pathlib import Path
from uuid import UUID

import httpx
import psycopg
import structlog
from psycopg.rows import dict_row
from rich.console import Console

from api.chat.session import LINK_SECONDS, make_token
from settings import Settings
from stack.bootstrap import FirstKey
from stack.demo.deploying import deploy
from stack.demo.http import json_of
from stack.demo.steps import DemoError, Steps
from storage.secrets import load_secret_box
from storage.tenancy import first_tenant

log = structlog.get_logger()

AGENT = Path(__file__).parent.parent / "examples" / "deep_agent"
# Of the environment of `slipway up`, what the agent gets as secrets of its deployment.
_SECRETS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CHAT_MODEL")
_TIMEOUT_SECONDS = 60.0
_ROLLOUT_SECONDS = 300.0
_POLL_SECONDS = 2.0


async def deploy_chat(settings: Settings, api_url: str, key: FirstKey, console: Console) -> None:
    """Deploy the example agent unless the chat has a deployed revision; says on the console how it went."""
    if not settings.chat_deploy or not AGENT.is_dir():
        return
    name = settings.chat_deployment
    try:
        async with httpx.AsyncClient(
            base_url=api_url, headers={"X-Api-Key": key.text}, timeout=_TIMEOUT_SECONDS, trust_env=False
        ) as api:
            if await _is_deployed(api, name):
                return
            console.print("Deploying the chat's agent …")
            try:
                await deploy(Steps(Console(quiet=True)), api, name, AGENT)
            except httpx.TransportError:
                # The API was restarted or is busy; the rollout, once begun, goes on without this process.
                await _until_deployed(api, name)
        console.print("The chat's agent is deployed.")
    except (DemoError, httpx.HTTPError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        log.warning("chat_not_deployed", error=reason, hint="slipway up tries again at its next start")


def chat_link(settings: Settings, api_url: str, tenant_id: UUID) -> str:
    """An address that signs a browser in to the chat; works for a day."""
    configured = settings.secret_keys.get_secret_value() if settings.secret_keys else None
    secrets = load_secret_box(configured, settings.home)
    return f"{api_url}/chat?link={make_token(secrets, 'chat-link', tenant_id, LINK_SECONDS)}"


async def new_chat_link(settings: Settings) -> str:
    """The same for the first workspace of the configured database.

    Raises:
        RuntimeError: there is no database, or no workspace yet.
    """
    connection = await psycopg.AsyncConnection.connect(settings.require_database_url(), row_factory=dict_row)
    async with connection:
        tenant = await first_tenant(connection)
    if tenant is None:
        raise RuntimeError("There is no workspace yet: start `slipway up` first.")
    return chat_link(settings, settings.api_url, tenant.tenant_id)


async def _until_deployed(api: httpx.AsyncClient, name: str) -> None:
    async with asyncio.timeout(_ROLLOUT_SECONDS):
        while True:
            with contextlib.suppress(httpx.TransportError):
                if await _is_deployed(api, name):
                    return
            await asyncio.sleep(_POLL_SECONDS)


async def _is_deployed(api: httpx.AsyncClient, name: str) -> bool:
    """Whether the deployment serves; it is created here if it does not exist."""
    found = await json_of(api.get("/v2/deployments", params={"name": name, "limit": 100, "offset": 0}))
    for deployment in found["resources"]:
        if deployment["name"] == name:
            return bool(deployment.get("active_revision_id"))
    secrets = [
        {"name": variable, "value": os.environ[variable]} for variable in _SECRETS if os.environ.get(variable)
    ]
    body = {
        "name": name,
        "source": "internal_source",
        "source_config": {"deployment_type": "dev_zero"},
        "source_revision_config": {},
        "secrets": secrets,
    }
    await json_of(api.post("/v2/deployments", json=body))
    return False

"""Webhooks of runs (contract §7): which addresses are taken, and the secret that signs what is sent."""

from fastapi import APIRouter
from pydantic import BaseModel

from api.agent_server.deployment import OwnedDeployment
from api.agent_server.parameters import errors
from api.errors import InvalidError
from api.services import CurrentServices, Services
from storage.served import ServedDeployment
from storage.webhook_policy import webhook_problem
from storage.webhooks import webhook_secret

router = APIRouter(prefix="/webhooks", tags=["Webhooks"])


class WebhookSecret(BaseModel):
    secret: str


@router.get("/secret", summary="The secret that signs this deployment's webhooks", responses=errors())
async def secret(deployment: OwnedDeployment, services: CurrentServices) -> WebhookSecret:
    """Only with the workspace's key, also where the deployment has its own authentication."""
    async with services.database.transaction() as connection:
        return WebhookSecret(secret=await webhook_secret(connection, deployment.scope, services.secrets))


def check_webhook(services: Services, deployment: ServedDeployment, url: str | None) -> None:
    """Whether a run may name this webhook; None is always fine.

    Raises:
        InvalidError: the address may not be reached, or the deployment has switched webhooks off.
    """
    if url is None:
        return
    options = deployment.description.get("options") or {}
    if (options.get("http") or {}).get("disable_webhooks"):
        raise InvalidError("webhook: this deployment has switched webhooks off (http.disable_webhooks).")
    policy = (options.get("webhooks") or {}).get("url") or {}
    if problem := webhook_problem(url, policy, services.settings.allow_private_endpoints):
        raise InvalidError(f"webhook: {problem}.")

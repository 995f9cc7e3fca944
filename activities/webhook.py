"""Delivering webhooks: checked, signed, once taken never sent again (docs/architecture/webhooks.md)."""

import base64
import hashlib
import hmac
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import aiohttp
import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from storage.database import Database
from storage.secrets import SecretBox
from storage.webhook_policy import GuardedResolver, webhook_problem
from storage.webhooks import (
    SECRET_PREFIX,
    PreparedWebhook,
    forget_webhook,
    prepare_webhook,
    webhook_secret,
)
from workflows.messages.webhook import DELIVER_WEBHOOK, DeliverWebhook, WebhookDelivery

log = structlog.get_logger()

_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
# The receiver asks to be tried again; every other 4xx says that it never will take this.
_TRY_AGAIN = frozenset({408, 409, 425, 429})
_TEMPLATE = re.compile(r"\$\{\{\s*env\.(\w+)\s*\}\}")
_DEFAULT_PREFIX = "LG_WEBHOOK_"


class WebhookRefusedError(Exception):
    """Trying again would change nothing; the message says who must do what. Holds no address and no secret."""


class WebhookActivities:
    """A receiver may see the same delivery twice, never two different ones: `webhook-id` is the run's id."""

    def __init__(self, database: Database, secrets: SecretBox, *, allow_private_endpoints: bool) -> None:
        self._database = database
        self._secrets = secrets
        self._allow_private = allow_private_endpoints

    @activity.defn(name=DELIVER_WEBHOOK)
    async def deliver(self, delivery: DeliverWebhook) -> WebhookDelivery:
        """One attempt.

        Raises:
            ApplicationError: the receiver could not be reached or asked to be tried again.
        """
        run_id = UUID(delivery.run_id)
        async with self._database.transaction() as connection:
            prepared = await prepare_webhook(connection, UUID(delivery.thread_id), run_id)
            if prepared is None:
                return WebhookDelivery()
            secret = await webhook_secret(connection, prepared.scope, self._secrets)
        refused = None
        try:
            await self._send(prepared, _signed(secret, delivery.run_id, prepared.body))
        except WebhookRefusedError as error:
            refused = str(error)
        log.info("webhook_sent", run_id=delivery.run_id, refused=refused)
        async with self._database.connection() as connection:
            await forget_webhook(connection, prepared.scope, run_id)
        return WebhookDelivery(refused)

    async def _send(self, prepared: PreparedWebhook, signature: dict[str, str]) -> None:
        policy = prepared.settings.get("url") or {}
        if problem := webhook_problem(prepared.url, policy, self._allow_private):
            raise WebhookRefusedError(f"The address is not allowed: {problem}.")
        headers = {**self._headers(prepared), **signature, "Content-Type": "application/json"}
        connector = aiohttp.TCPConnector(resolver=GuardedResolver(policy, self._allow_private))
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session,
                session.post(
                    prepared.url, data=prepared.body, headers=headers, allow_redirects=False
                ) as answer,
            ):
                _check(answer.status)
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, PermissionError):
                raise WebhookRefusedError(str(error.os_error)) from None
            raise _unreachable(prepared.url, error) from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(prepared.url, error) from None

    def _headers(self, prepared: PreparedWebhook) -> dict[str, str]:
        """Headers of langgraph.json, with the deployment's variables in place of their templates."""
        templates: Mapping[str, str] = prepared.settings.get("headers") or {}
        if not templates:
            return {}
        encrypted = prepared.encrypted_variables
        variables: dict[str, Any] = self._secrets.decrypt(encrypted) if encrypted else {}
        prefix = prepared.settings.get("env_prefix") or _DEFAULT_PREFIX

        def value_of(match: re.Match[str]) -> str:
            name = match[1]
            if not name.startswith(prefix) or name not in variables:
                raise WebhookRefusedError(f"The deployment has no variable {name} that begins with {prefix}.")
            return str(variables[name])

        return {name: _TEMPLATE.sub(value_of, template) for name, template in templates.items()}


def _signed(secret: str, run_id: str, body: bytes) -> dict[str, str]:
    """Headers after the Standard Webhooks scheme: an HMAC-SHA256 over id, time and body."""
    sent_at = str(int(time.time()))
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    digest = hmac.new(key, b".".join((run_id.encode(), sent_at.encode(), body)), hashlib.sha256).digest()
    return {
        "webhook-id": run_id,
        "webhook-timestamp": sent_at,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def _unreachable(url: str, error: Exception) -> ApplicationError:
    """Names the host only: the rest of the address may be a secret."""
    return ApplicationError(
        f"{urlsplit(url).hostname} could not be reached: {type(error).__name__}", type="WebhookUnreachable"
    )


def _check(status: int) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 500 and status not in _TRY_AGAIN:
        raise WebhookRefusedError(f"The receiver answered {status}.")
    raise ApplicationError(f"The receiver answered {status}.", type="WebhookNotTaken")

"""Webhooks: what is to be delivered, and the secret that signs it."""

import base64
import secrets as random_secrets
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from storage.database import Connection
from storage.scope import DeploymentScope
from storage.secrets import SecretBox

SECRET_PREFIX = "whsec_"

# The body is written once, with the first attempt: a retry sends the same, whatever happened to the thread since.
_PREPARE = """
INSERT INTO webhook_deliveries (run_id, deployment_id, tenant_id, url, body)
SELECT r.run_id, r.deployment_id, r.tenant_id, r.kwargs ->> 'webhook', json_build_object(
    'run_id', r.run_id, 'thread_id', r.thread_id, 'assistant_id', r.assistant_id, 'metadata', r.metadata,
    'status', r.status, 'kwargs', r.kwargs, 'multitask_strategy', r.multitask_strategy, 'created_at', r.created_at,
    'updated_at', r.updated_at, 'langsmith_session_name', d.name, 'run_started_at', r.started_at,
    'run_ended_at', r.ended_at, 'webhook_sent_at', now(), 'error', r.error,
    'values', coalesce((SELECT s.state -> 'values' FROM thread_states s WHERE s.thread_id = r.thread_id
        AND s.run_id = r.run_id AND s.checkpoint_ns = '' ORDER BY s.checkpoint_id DESC LIMIT 1),
        to_json(t.values)))
FROM runs r JOIN threads t USING (thread_id) JOIN deployments d ON d.id = r.deployment_id
WHERE r.run_id = %(run_id)s AND r.thread_id = %(thread_id)s
      AND r.kwargs ->> 'webhook' IS NOT NULL
ON CONFLICT (run_id) DO NOTHING
"""
_READ = """
SELECT w.url, w.body::text AS body, w.tenant_id, w.deployment_id, d.secrets, r.description
FROM webhook_deliveries w JOIN deployments d ON d.id = w.deployment_id
LEFT JOIN revisions r ON r.id = d.active_revision_id
WHERE w.run_id = %(run_id)s
"""


@dataclass(frozen=True)
class PreparedWebhook:
    """What one delivery sends. `settings`: the section `webhooks` of the revision's langgraph.json."""

    scope: DeploymentScope
    url: str
    body: bytes
    settings: dict[str, Any]
    encrypted_variables: bytes | None


async def prepare_webhook(connection: Connection, thread_id: UUID, run_id: UUID) -> PreparedWebhook | None:
    """The delivery of a run that has ended; None if the run is gone or asked for none.

    For platform activities: they act for the run's workflow, whose id is authority enough.
    """
    ids = {"thread_id": thread_id, "run_id": run_id}
    await connection.execute(_PREPARE, ids)
    row = await (await connection.execute(_READ, ids)).fetchone()
    if row is None:
        return None
    options = (row["description"] or {}).get("options") or {}
    return PreparedWebhook(
        DeploymentScope(row["tenant_id"], row["deployment_id"]),
        row["url"],
        row["body"].encode(),
        options.get("webhooks") or {},
        row["secrets"],
    )


async def forget_webhook(connection: Connection, scope: DeploymentScope, run_id: UUID) -> None:
    """It was delivered, or never will be."""
    await connection.execute(
        "DELETE FROM webhook_deliveries WHERE run_id = %s AND deployment_id = %s AND tenant_id = %s",
        (run_id, scope.deployment_id, scope.tenant_id),
    )


async def webhook_secret(connection: Connection, scope: DeploymentScope, box: SecretBox) -> str:
    """The deployment's signing secret, made when it is first asked for: `whsec_` and 32 bytes in base64."""
    made = SECRET_PREFIX + base64.b64encode(random_secrets.token_bytes(32)).decode()
    await connection.execute(
        "INSERT INTO webhook_secrets (deployment_id, tenant_id, secret)"
        " SELECT id, tenant_id, %s FROM deployments WHERE id = %s AND tenant_id = %s ON CONFLICT DO NOTHING",
        (box.encrypt(made), scope.deployment_id, scope.tenant_id),
    )
    cursor = await connection.execute(
        "SELECT secret FROM webhook_secrets WHERE deployment_id = %s AND tenant_id = %s",
        (scope.deployment_id, scope.tenant_id),
    )
    row = await cursor.fetchone()
    assert row is not None, "it was just made"
    return str(box.decrypt(row["secret"]))

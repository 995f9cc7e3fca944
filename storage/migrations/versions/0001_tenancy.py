"""Workspaces and API keys."""

from storage.migrations import apply

revision = "0001"
down_revision = None

STATEMENTS = """
CREATE TABLE tenants (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    plan       text NOT NULL DEFAULT 'enterprise' CHECK (plan IN ('developer', 'plus', 'enterprise')),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A key is stored as the SHA-256 of its text: keys are random and long, so a slow hash would add nothing.
CREATE TABLE api_keys (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL REFERENCES tenants ON DELETE CASCADE,
    name          text NOT NULL,
    key_hash      bytea NOT NULL UNIQUE,
    key_prefix    text NOT NULL,
    scope         text NOT NULL DEFAULT 'workspace' CHECK (scope IN ('workspace', 'tracing')),
    deployment_id uuid,
    created_at    timestamptz NOT NULL DEFAULT now(),
    revoked_at    timestamptz
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id);
CREATE INDEX api_keys_deployment ON api_keys (deployment_id) WHERE deployment_id IS NOT NULL;
"""


def upgrade() -> None:
    apply(STATEMENTS)

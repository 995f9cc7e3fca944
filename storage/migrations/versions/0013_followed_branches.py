"""Branches that deployments follow."""

from storage.migrations import apply

revision = "0013"
down_revision = "0012"

STATEMENTS = """
CREATE TABLE followed_branches (
    deployment_id uuid PRIMARY KEY REFERENCES deployments ON DELETE CASCADE,
    tenant_id     uuid NOT NULL,
    head          text,              -- the commit it was at when it was last read
    problem       text,              -- why it could not be read the last time
    failures      integer NOT NULL,  -- how often in a row it could not be read
    next_look_at  timestamptz NOT NULL,
    looked_at     timestamptz NOT NULL DEFAULT now()
);
"""


def upgrade() -> None:
    apply(STATEMENTS)

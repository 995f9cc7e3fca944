"""Objects are doomed before they are uploaded, and only from a moment on."""

from storage.migrations import apply

revision = "0008"
down_revision = "0007"

STATEMENTS = """
-- When the sweep may delete the object: at once, or, while it is being uploaded, long after that should have ended.
ALTER TABLE doomed_objects ADD COLUMN due_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX doomed_objects_due ON doomed_objects (due_at);
"""


def upgrade() -> None:
    apply(STATEMENTS)

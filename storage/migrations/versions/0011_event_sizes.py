"""Sizes of events as readers get them: what is stored is compressed, and says little of them."""

from storage.migrations import apply

revision = "0011"
down_revision = "0010"

STATEMENTS = """
-- Of `data` as text; null in rows of older workers.
ALTER TABLE thread_events ADD COLUMN bytes integer;
"""


def upgrade() -> None:
    apply(STATEMENTS)

"""State updates take their turn among a thread's runs instead of holding the thread."""

from storage.migrations import apply

revision = "0007"
down_revision = "0006"

STATEMENTS = """
-- How it ended, written by the thread's workflow after it: from then on nobody may write for this update.
ALTER TABLE state_updates ADD COLUMN outcome text;

-- Runs may wait behind an update: only one that runs is in its way.
CREATE OR REPLACE FUNCTION slipway_fence_update(the_update uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM state_updates u
        WHERE update_id = the_update AND response IS NULL AND outcome IS NULL AND claimed_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM runs r WHERE r.thread_id = u.thread_id AND r.status = 'running')
        FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'state update % was withdrawn', the_update USING ERRCODE = 'SW001';
    END IF;
END $$;
"""


def upgrade() -> None:
    apply(STATEMENTS)

"""Keys and values of inputs and outputs of root runs are found by an index."""

from storage.migrations import apply

revision = "0010"
down_revision = "0009"

# A document of more than 16 KiB is not taken apart while it is ingested: the index knows only that it is large, and a
# filter looks into those that are. Building the indexes holds up ingestion: a minute for some million root runs.
INDEXES = """
CREATE FUNCTION slipway_indexed_pairs(document text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN octet_length(document) > 16384 THEN '["large"]'::jsonb ELSE public.slipway_pairs(document) END
$$;
CREATE INDEX trace_runs_inputs ON trace_runs USING gin (slipway_indexed_pairs(inputs) jsonb_path_ops) WHERE is_root;
CREATE INDEX trace_runs_outputs ON trace_runs USING gin (slipway_indexed_pairs(outputs) jsonb_path_ops) WHERE is_root;
"""


def upgrade() -> None:
    apply(INDEXES)

"""Keys and values of inputs are found however a client wrote them, and whether or not an index leads there."""

import pytest

from storage.database import Database
from storage.filters.compile import compile_filter
from storage.ids import new_id

_PAIR = 'and(eq(input_key, "{}"), eq(input_value, "{}"))'

FOUND = [
    (r'{"question": "why"}', _PAIR.format("question", "why")),
    (r'{"\u0071uestion": "\u0077hy"}', _PAIR.format("question", "why")),
    (r'{"page": "https:\/\/example.org\/a"}', _PAIR.format("page", "https://example.org/a")),
    (r'{"text": "say \"hi\"\n50% of a_b"}', _PAIR.format("text", r"say \"hi\"\n50% of a_b")),
    (r'{"a.b": {"c": ["x", {"d": "deep"}]}}', _PAIR.format("a.b.c.d", "deep")),
    (r'{"n": 1e2}', _PAIR.format("n", "100")),
    (r'{"flag": true}', 'and(eq(input_key, "flag"), eq(input_value, true))'),
    (r'{"question": "why"}', 'and(eq(input_key, "question"), like(input_value, "w%"))'),
    ('{"long": "' + 300 * "y" + '"}', _PAIR.format("long", 300 * "y")),
    ('{"question": "why", "filling": "' + 20_000 * "x" + '"}', _PAIR.format("question", "why")),
    ("null", 'not(eq(input_key, "question"))'),
]


@pytest.mark.parametrize(("document", "text"), FOUND)
async def test_a_pair_is_found_however_its_document_is_written(
    database: Database, document: str, text: str
) -> None:
    run_id = new_id()
    async with database.connection() as connection, connection.transaction(force_rollback=True):
        await connection.execute(
            "INSERT INTO trace_runs (tenant_id, session_id, id, trace_id, start_time, is_root, name, run_type, status,"
            " trace_tier, dotted_order, inputs)"
            " VALUES (%(id)s, %(id)s, %(id)s, %(id)s, now(), true, 'n', 'chain', 'success', 'longlived', '', %(text)s)",
            {"id": run_id, "text": document},
        )
        compiled = compile_filter(text)
        for leading_to_it in ("off", "on"):
            await connection.execute(f"SET LOCAL enable_seqscan = {leading_to_it}".encode())
            cursor = await connection.execute(
                f"SELECT 1 FROM trace_runs WHERE is_root AND session_id = %(id)s AND {compiled.sql}".encode(),
                {**compiled.params, "id": run_id},
            )
            assert await cursor.fetchone(), text

"""Any filter in SQL selects exactly the rows that it selects in Python."""

import random
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from psycopg.rows import dict_row

from storage.database import Database
from storage.filters.compile import compile_tree
from storage.filters.pairs import flatten
from storage.filters.parse import parse_filter
from storage.ids import new_id
from storage.tenancy import create_tenant
from tests.filters.expressions import KEYS, TAGS, TEN, WORDS, expressions
from tests.filters.reference import Row, matches
from tests.stacks import Stack

ROWS = 60


Connection = psycopg.Connection[dict[str, Any]]


@pytest.fixture(scope="module")
def connection(stack: Stack) -> Iterator[Connection]:
    """One for all expressions."""
    with psycopg.connect(stack.database_url, row_factory=dict_row, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
async def rows(database: Database) -> list[Row]:
    """Rows of a workspace of their own, with feedback, in every combination that chance gives."""
    chance = random.Random(11)
    async with database.transaction() as connection:
        tenant = (await create_tenant(connection, "filters")).tenant_id
        made = [_row(chance, tenant) for _ in range(ROWS)]
        for row in made:
            await connection.execute(_INSERT, _stored(row))
            for record in row["feedback"]:
                await connection.execute(
                    "INSERT INTO feedback (id, tenant_id, run_id, key, score, value, comment)"
                    " VALUES (%s, %s, %s, %s, %s, %s, %s)",
                    (
                        *(new_id(), tenant, row["id"], record["key"], record["score"]),
                        *(
                            orjson.dumps(record["value"]).decode() if record["value"] else None,
                            record["comment"],
                        ),
                    ),
                )
    return made


_PLAIN = (
    *(
        "tenant_id",
        "session_id",
        "id",
        "trace_id",
        "parent_run_id",
        "start_time",
        "end_time",
        "first_token_time",
    ),
    *("name", "run_type", "status", "trace_tier", "dotted_order", "is_root", "tags", "error", "total_tokens"),
    "total_cost",
)
_JSON = ("inputs", "outputs")
_INSERT = (
    f"INSERT INTO trace_runs ({', '.join((*_PLAIN, *_JSON, 'metadata_pairs'))})"
    f" VALUES ({', '.join(f'%({name})s' for name in (*_PLAIN, *_JSON, 'metadata_pairs'))})"
)


def _row(chance: random.Random, tenant: UUID) -> Row:
    start = TEN + timedelta(minutes=chance.randrange(5))
    root = chance.random() < 0.5
    error = chance.choice([None, None, *WORDS])
    run_id = new_id()
    return {
        "tenant_id": tenant,
        "session_id": tenant,
        "id": run_id,
        "trace_id": run_id,
        "parent_run_id": None if root else new_id(),
        "start_time": start,
        "end_time": chance.choice([None, start + timedelta(seconds=chance.choice([0, 0.5, 1.5, 61]))]),
        "first_token_time": chance.choice([None, start + timedelta(seconds=chance.choice([0.25, 60]))]),
        "name": chance.choice(WORDS),
        "run_type": chance.choice(["llm", "chain", "tool"]),
        "status": "error" if error else chance.choice(["success", "pending"]),
        "trace_tier": "longlived",
        "dotted_order": "",
        "is_root": root,
        "tags": chance.choice([None, [], chance.sample(TAGS, 2), [chance.choice(TAGS)]]),
        "error": error,
        "total_tokens": chance.choice([0, 10, 11]),
        "total_cost": chance.choice([None, Decimal("0"), Decimal("0.001")]),
        "inputs": _document(chance),
        "outputs": _document(chance),
        "metadata": _document(chance) or {},
        "feedback": [_feedback(chance) for _ in range(chance.choice([0, 0, 1, 2]))],
    }


def _document(chance: random.Random) -> Any:
    if chance.random() < 0.2:
        return None
    document: dict[str, Any] = {}
    for key in chance.sample(KEYS, chance.randrange(len(KEYS))):
        if key == "nested.key":
            document["nested"] = {"key": chance.choice(WORDS), "other": None}
        elif key == "list":
            document[key] = [chance.choice([*WORDS, 1, {"deep": True}]) for _ in range(chance.randrange(3))]
        else:
            document[key] = chance.choice([*WORDS, 1, 2.5, True, None])
    if chance.random() < 0.2:
        document["filling"] = "x" * 20_000  # more than the indexes of keys and values take apart
    return document


def _feedback(chance: random.Random) -> dict[str, Any]:
    return {
        "key": chance.choice(["helpful", "correct"]),
        "score": chance.choice([None, Decimal(0), Decimal("0.5"), Decimal(1)]),
        "value": chance.choice([None, *WORDS]),
        "comment": None,
    }


def _stored(row: Row) -> dict[str, Any]:
    documents = {name: None if row[name] is None else orjson.dumps(row[name]).decode() for name in _JSON}
    return {**row, **documents, "metadata_pairs": orjson.dumps(flatten(row["metadata"])).decode()}


@given(text=expressions)
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_filter_selects_the_same_rows_in_sql_and_in_python(
    connection: Connection, rows: list[Row], text: str
) -> None:
    tree = parse_filter(text)
    compiled = compile_tree(tree, alias="r", prefix="p")
    found = connection.execute(
        f"SELECT r.id, ({compiled.sql}) AS truth FROM trace_runs r WHERE r.session_id = %(project)s".encode(),
        {**compiled.params, "project": rows[0]["session_id"]},
    ).fetchall()
    in_sql = {row["id"]: row["truth"] for row in found}
    assert in_sql == {row["id"]: matches(tree, row) for row in rows}, text

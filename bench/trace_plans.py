"""Plans and timings of every kind of query that reads runs, as PostgreSQL executes them.

    SLIPWAY_HOME=.slipway python -m bench.trace_plans --rows 1000000

Seeds a workspace of its own in the running stack's database, has each query that the functions of `storage.traces` make
explained while it is executed, then times it alone. `read` is how many rows of `trace_runs` a plan touched.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from api.traces.run_query import RunFilters, conditions_of
from bench.trace_seed import RUNS_PER_TRACE, Seeded, seed
from settings import load_settings
from storage.database import Connection, Database
from storage.ids import new_id
from storage.projects import ensure_project
from storage.tenancy import create_tenant
from storage.traces.runs import RunQuery, query_runs
from storage.traces.stats import run_stats

Call = Callable[[Connection], Awaitable[Any]]


@dataclass(frozen=True)
class Kind:
    """A kind of query: the indexes of which its plan uses one, and how many rows of runs it may touch."""

    name: str
    call: Call
    indexes: tuple[str, ...]
    at_most: int


def kinds(seeded: Seeded) -> list[Kind]:
    """Every kind that the benchmarks, the API and the SDKs issue."""
    traces, middle = seeded.traces, seeded.traces // 2
    customer = seeded.customer(middle)
    hour = {"start_time": seeded.start, "end_time": seeded.start + (seeded.end - seeded.start) / 24}
    page = 100

    def runs(**conditions: Any) -> Call:
        filters = {name: conditions.pop(name) for name in _FILTERS if name in conditions}
        query = RunQuery(session_ids=[seeded.session_id], **conditions)
        query.conditions = list(conditions_of(RunFilters(**filters)))
        return lambda connection: query_runs(connection, seeded.tenant_id, query)

    def stats(**conditions: Any) -> Call:
        query = RunQuery(session_ids=[seeded.session_id], **conditions)
        return lambda connection: run_stats(connection, seeded.tenant_id, query)

    staging = _pair("environment", f"{seeded.mark}-staging")
    question, answer = f"{seeded.mark}-question-{middle}", f"{seeded.mark}-answer-{middle}-0"
    roots = ("trace_runs_roots",)
    metadata = ("trace_runs_metadata",)
    by_trace = ("trace_runs_trace",)
    after = (seeded.start + middle * seeded.step, seeded.run_id(middle))
    return [
        Kind("newest runs", runs(), ("trace_runs_project",), page),
        Kind("newest roots", runs(is_root=True), roots, page),
        Kind("newest roots, is_root in the filter", runs(filter="eq(is_root, true)"), roots, page),
        Kind("next page of roots", runs(is_root=True, after=after), roots, page + 1),
        Kind("oldest runs first", runs(descending=False), ("trace_runs_project",), page),
        Kind("export of an hour", runs(descending=False, **hour), ("trace_runs_project",), page),
        Kind("roots of an hour", runs(is_root=True, **hour), roots, traces // 24 + page),
        # A value that half of a small project has is rare in a large partition: then what has it is sorted.
        Kind("metadata, one in two", runs(is_root=True, filter=staging), (*roots, *metadata), traces // 2 + page),
        Kind("metadata, one in a thousand", runs(is_root=True, filter=_pair("customer", customer)),
             metadata, traces // 1_000 + page),
        Kind("metadata, nobody", runs(is_root=True, filter=_pair("customer", "nobody")), metadata, page),
        Kind("thread", runs(is_root=True, filter=f'eq(thread_id, "{seeded.run_id(middle)}")'), metadata, page),
        Kind("key and value of inputs", runs(is_root=True, filter=_pair("question", question, "input")),
             ("trace_runs_inputs",), page),
        Kind("key and value of outputs", runs(is_root=True, filter=_pair("answer", answer, "output")),
             ("trace_runs_outputs",), page),
        Kind("errors", runs(is_root=True, has_error=True), roots, 60 * page),
        Kind("one trace", runs(trace_id=seeded.run_id(middle), limit=1_000), by_trace, RUNS_PER_TRACE),
        Kind("children of a run", runs(parent_run_id=seeded.run_id(middle)), by_trace, 2 * RUNS_PER_TRACE),
        Kind("runs by id", runs(run_ids=[seeded.run_id(n, 1) for n in range(10)]), ("trace_runs_project",), 10),
        Kind("runs of examples", runs(reference_example_ids=[seeded.example_id(n) for n in range(0, 100, 10)]),
             ("trace_runs_example",), 10),
        # Joined from either side, whichever the planner thinks is less.
        Kind("trace filter, one in two",
             runs(trace_filter=staging, filter='eq(run_type, "llm")'),
             (*by_trace, *metadata), 2 * RUNS_PER_TRACE * traces),
        Kind("trace filter, one in a thousand", runs(trace_filter=_pair("customer", customer)),
             metadata, 2 * RUNS_PER_TRACE * (traces // 1_000 + 1) + page),
        Kind("tree filter", runs(is_root=True, tree_filter='eq(run_type, "tool")'),
             by_trace, 2 * RUNS_PER_TRACE * traces),
        Kind("feedback", runs(is_root=True, filter='eq(feedback_key, "absent")', **hour),
             (*roots, "feedback_run", "feedback_created"), traces // 24 + page),
        Kind("statistics of an hour", stats(is_root=True, **hour), roots, traces // 24 + page),
    ]  # fmt: skip


_FILTERS = ("filter", "trace_filter", "tree_filter")


def _pair(key: str, value: str, source: str = "metadata") -> str:
    return f'and(eq({source}_key, "{key}"), eq({source}_value, "{value}"))'


@dataclass(frozen=True)
class Plan:
    """What EXPLAIN ANALYZE says of the statements on `trace_runs` that a call made."""

    nodes: list[dict[str, Any]]
    parents: dict[str, str]

    @property
    def indexes(self) -> set[str]:
        """Names of the indexes used, those of partitions under the name of the whole table's."""
        names = (node["Index Name"] for node in self.nodes if "Index Name" in node and node["Actual Loops"])
        return {self.parents.get(name, name) for name in names}

    @property
    def partitions(self) -> set[str]:
        """Partitions in which rows were looked for."""
        return {node["Relation Name"] for node in self._scans()}

    @property
    def read(self) -> int:
        """Rows of runs that were touched, those that a filter refused included."""
        return round(sum(_touched(node) for node in self._scans()))

    @property
    def read_in_sequence(self) -> int:
        """Those of them that no index led to."""
        return round(sum(_touched(node) for node in self._scans() if node["Node Type"] == "Seq Scan"))

    @property
    def sorted_rows(self) -> int:
        """The most rows that one sort took in."""
        inputs = (
            child["Actual Rows"] * child["Actual Loops"]
            for node in self.nodes
            if node["Node Type"] == "Sort"
            for child in node["Plans"]
        )
        return round(max(inputs, default=0))

    def _scans(self) -> Iterator[dict[str, Any]]:
        return (node for node in self.nodes if node.get("Relation Name", "").startswith("trace_runs"))


def _touched(node: dict[str, Any]) -> float:
    refused = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return float((node["Actual Rows"] + refused) * node["Actual Loops"])


async def explain(connection: Connection, call: Call) -> Plan:
    """The plan of a call, which is really executed."""
    recorder = _Recorder(connection)
    await call(cast(Connection, recorder))
    cursor = await connection.execute(_PARENTS)
    parents = {row["part"]: row["whole"] for row in await cursor.fetchall()}
    return Plan(recorder.nodes, parents)


# PostgreSQL names a partition's index itself; the whole table's says what it is.
_PARENTS = """
SELECT part.relname AS part, whole.relname AS whole
FROM pg_inherits i JOIN pg_class part ON part.oid = i.inhrelid JOIN pg_class whole ON whole.oid = i.inhparent
WHERE whole.relkind = 'I'
"""


class _Recorder:
    """A connection that has each statement on runs explained before it is executed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.nodes: list[dict[str, Any]] = []

    async def execute(self, statement: Any, parameters: Any = None, **options: Any) -> Any:
        text = statement if isinstance(statement, bytes) else statement.encode()
        if b"FROM trace_runs" in text:
            cursor = await self._connection.execute(
                b"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + text, parameters
            )
            row = await cursor.fetchone()
            assert row is not None
            self._collect(row["QUERY PLAN"][0]["Plan"])
        return await self._connection.execute(statement, parameters, **options)

    def _collect(self, node: dict[str, Any]) -> None:
        self.nodes.append(node)
        for child in node.get("Plans", []):
            self._collect(child)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    asyncio.run(measure(options.rows, options.times))


async def measure(rows: int, times: int) -> None:
    """Print a line for each kind: milliseconds, rows of runs touched, rows sorted, indexes."""
    async with Database(load_settings().require_database_url(), 2) as database:
        seeded = await new_workspace(database, rows // RUNS_PER_TRACE, timedelta(days=1))
        began = time.perf_counter()
        async with database.connection() as connection:
            await seed(connection, seeded)
            print(f"{rows} rows seeded in {time.perf_counter() - began:.0f} s")
            for kind in kinds(seeded):
                plan = await explain(connection, kind.call)
                took = [await _milliseconds(connection, kind.call) for _ in range(times)]
                print(
                    f"{kind.name:36} p50 {statistics.median(took):7.1f} ms, max {max(took):7.1f} ms,"
                    f" read {plan.read:7}, sorted {plan.sorted_rows:5}, {', '.join(sorted(plan.indexes))}"
                )


async def new_workspace(database: Database, traces: int, spread: timedelta) -> Seeded:
    """A workspace and a project for rows that end now, spread over a time; nothing is seeded yet."""
    async with database.transaction() as connection:
        tenant_id = (await create_tenant(connection, "plans")).tenant_id
        session_id = await ensure_project(connection, tenant_id, f"plans {new_id()}")
    return Seeded(tenant_id, session_id, traces, datetime.now(UTC) - spread, spread / traces)


async def _milliseconds(connection: Connection, call: Call) -> float:
    began = time.perf_counter()
    await call(connection)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()

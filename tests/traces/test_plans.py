"""Every kind of query finds its rows through an index, and touches not many more than it answers with."""

from datetime import timedelta

from bench.trace_plans import explain, kinds, new_workspace
from bench.trace_seed import seed
from storage.database import Database

TRACES = 12_000
SMALL = 1_000  # rows of a partition that is read faster without its index


async def test_every_kind_of_query_reads_few_rows_through_its_index(database: Database) -> None:
    """Among 60,000 rows: no scan without an index, no sort of more than may be read, and bounds of time prune."""
    seeded = await new_workspace(database, TRACES, timedelta(hours=12))
    offences = []
    async with database.connection() as connection:
        await seed(connection, seeded, characters=70)
        for kind in kinds(seeded):
            plan = await explain(connection, kind.call)
            found = f"{kind.name}: read {plan.read}, sorted {plan.sorted_rows}, {sorted(plan.indexes)}"
            if not plan.indexes & set(kind.indexes):
                offences.append(f"{found}; expected one of {kind.indexes}")
            if plan.read > kind.at_most or plan.read_in_sequence > SMALL:
                offences.append(
                    f"{found}; expected at most {kind.at_most}, {plan.read_in_sequence} in sequence"
                )
            if plan.sorted_rows > kind.at_most:
                offences.append(f"{found}; expected to sort at most {kind.at_most}")
            if "an hour" in kind.name and len(plan.partitions) > 2:
                offences.append(
                    f"{found}; reads {sorted(plan.partitions)}, expected one, or two where a month ends"
                )
    assert offences == []

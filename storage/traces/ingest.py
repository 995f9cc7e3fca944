"""Ingestion: one request's changes become rows in one transaction (trace contract §5.4).

A run's key is inserted or locked before its row is touched, always in order of id. Runs that the database has never
seen, nearly all, are copied in; the others are merged with what is stored. Sums of tokens and costs are kept on every
ancestor: a run with usage also holds the keys of its ancestors, made if they are missing, so that an ancestor that
arrives at the same moment either is seen or sees.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from storage.database import Connection
from storage.projects import Project
from storage.traces.changes import FeedbackChange, RunChange
from storage.traces.deletion import doom
from storage.traces.feedback import apply_feedback, pending_feedback
from storage.traces.keys import RunKey, insert_keys, lock_keys, move_keys
from storage.traces.merge import MergedRun
from storage.traces.order import complete_orders
from storage.traces.rows import Sums, add_sums, copy_rows, load_rows, merged_run_of, update_rows
from storage.traces.subtree import sums_below
from storage.traces.uploads import claim_uploads
from storage.traces.usage import add_usage, effective_usage


class ForeignProjectError(Exception):
    """A change touches a run of a project that the caller may not write to."""


@dataclass
class Batch:
    """Changes of one request, in order, with every project resolved into `projects`.

    With `only_project` every run that is named must belong to that project.
    """

    tenant_id: UUID
    changes: list[RunChange]
    projects: dict[UUID, Project]
    feedback: list[FeedbackChange] = field(default_factory=list)
    only_project: UUID | None = None


class _MoreKeysNeededError(Exception):
    """Ancestors turned up whose keys were not locked in order."""

    def __init__(self, run_ids: set[UUID]) -> None:
        super().__init__(f"{len(run_ids)} more keys are needed")
        self.run_ids = run_ids


async def ingest(connection: Connection, batch: Batch) -> None:
    """Store a batch inside the caller's transaction: all of it, or, if this raises, nothing once rolled back.

    Raises:
        ForeignProjectError: see `Batch.only_project`.
        UploadExpiredError: see `storage.traces.uploads`.
    """
    also: set[UUID] = set()
    while True:
        try:
            async with connection.transaction():
                await _Ingestion(connection, batch, also).run()
            return
        except _MoreKeysNeededError as more:
            also |= more.run_ids


class _Ingestion:
    def __init__(self, connection: Connection, batch: Batch, also: set[UUID]) -> None:
        self._connection = connection
        self._batch = batch
        self._tenant_id = batch.tenant_id
        self._also = also
        self._changes: defaultdict[UUID, list[RunChange]] = defaultdict(list)
        for change in batch.changes:
            self._changes[change.run_id].append(change)
        self._runs: dict[UUID, MergedRun] = {}
        self._keys: dict[UUID, RunKey] = {}  # existing rows
        self._announced: set[UUID] = set()  # existing keys without a row
        self._locked: set[UUID] = set()
        self._sums: defaultdict[UUID, Sums] = defaultdict(dict)
        self._replaced: list[str] = []  # objects of attachments that were sent again

    async def run(self) -> None:
        for run_id, changes in self._changes.items():
            self._runs[run_id] = _merge(MergedRun(), changes)
        await self._take_keys()
        await self._load_existing()
        self._check_projects()
        await complete_orders(self._connection, self._tenant_id, self._runs)
        await self._sum_up()
        await self._write()
        await self._keep_objects()
        await self._apply_feedback()

    async def _take_keys(self) -> None:
        runs = [
            (run_id, run.values["session_id"], run.values["start_time"]) for run_id, run in self._runs.items()
        ]
        others = self._also | {change.run_id for change in self._batch.feedback if change.run_id}
        for changes in self._changes.values():
            for change in changes:
                if change.values.get("extra_usage") or change.values.get("outputs_usage"):
                    others.update(change.values.get("parent_run_ids") or ())
        others -= self._runs.keys()
        new = await insert_keys(
            self._connection, self._tenant_id, [*runs, *((run_id, None, None) for run_id in others)]
        )
        self._locked = others | self._runs.keys()
        existing = self._locked - new
        if not existing:
            return
        for key in (await lock_keys(self._connection, self._tenant_id, existing)).values():
            if key.start_time is None:
                self._announced.add(key.run_id)
            else:
                self._keys[key.run_id] = key

    async def _load_existing(self) -> None:
        changed = [key for run_id, key in self._keys.items() if run_id in self._runs]
        rows = await load_rows(self._connection, self._tenant_id, changed)
        for run_id, row in rows.items():
            run = merged_run_of(row)
            run.values["counted"] = (row["own_usage"] or {}).get("counted")
            run.values["counted_for"] = [run_id, *row["parent_run_ids"]]
            self._runs[run_id] = _merge(run, self._changes[run_id])
            known = row["attachments"] or {}
            self._replaced += [known[name]["key"] for name in run.attachments if name in known]

    def _check_projects(self) -> None:
        allowed = self._batch.only_project
        if allowed is None:
            return
        # Sums of ancestors in other projects may change: a trace may span projects, and the sums are ours.
        named = self._runs.keys() | {change.run_id for change in self._batch.feedback}
        touched: Iterable[UUID | None] = [
            *(run.values["session_id"] for run in self._runs.values()),
            *(key.session_id for run_id, key in self._keys.items() if run_id in named),
        ]
        if any(project_id != allowed for project_id in touched):
            raise ForeignProjectError("This key may only write to its deployment's project.")

    async def _sum_up(self) -> None:
        """What usage adds to the sums of runs and their ancestors."""
        late = {
            run_id: self._runs[run_id].values.get("trace_id")
            for run_id in self._announced & self._runs.keys()
        }
        for run_id, sums in (await sums_below(self._connection, self._tenant_id, late)).items():
            self._sums[run_id] = sums
        for run_id, run in self._runs.items():
            values = run.values
            before, after = values.get("counted"), effective_usage(values)
            places_before = values.get("counted_for", [])
            places = [run_id, *(values.get("parent_run_ids") or ())]
            if before == after and (places == places_before or not after):
                continue
            missing = ({*places, *places_before} if before else {*places}) - self._locked
            if missing:
                raise _MoreKeysNeededError(missing)
            for place in places_before if before else ():
                add_usage(self._sums[place], before, -1)
            for place in places if after else ():
                add_usage(self._sums[place], after)
            values["counted"] = after
            run.changed.add("own_usage")

    async def _write(self) -> None:
        new, updates, moved = [], [], []
        for run_id, run in self._runs.items():
            sums = self._sums.pop(run_id, {})
            session_id, start_time = run.values["session_id"], run.values["start_time"]
            key = self._keys.get(run_id)
            if key is None:
                new.append((run_id, run, self._batch.projects[session_id].trace_tier, sums))
            else:
                updates.append((key, run, sums))
            if run_id in self._announced or (
                key and (key.session_id, key.start_time) != (session_id, start_time)
            ):
                moved.append((run_id, session_id, start_time))
        await copy_rows(self._connection, self._tenant_id, new)
        await update_rows(self._connection, self._tenant_id, updates)
        await move_keys(self._connection, self._tenant_id, moved)
        ancestors = [
            (self._keys[run_id], sums) for run_id, sums in self._sums.items() if run_id in self._keys
        ]
        await add_sums(self._connection, self._tenant_id, ancestors)
        for run_id, session_id, start_time in moved:
            self._keys[run_id] = RunKey(run_id, session_id, start_time)
        for run_id, run, _, _ in new:
            self._keys[run_id] = RunKey(run_id, run.values["session_id"], run.values["start_time"])

    async def _keep_objects(self) -> None:
        files = [file for run in self._runs.values() for file in run.attachments.values()]
        await claim_uploads(self._connection, [file["key"] for file in files])
        await doom(self._connection, self._replaced)

    async def _apply_feedback(self) -> None:
        """Statistics of runs that got feedback now, or had it before they came themselves."""
        waiting = await pending_feedback(
            self._connection, self._tenant_id, self._announced & self._runs.keys()
        )
        if self._batch.feedback or waiting:
            await apply_feedback(self._connection, self._tenant_id, self._batch.feedback, self._keys, waiting)


def _merge(run: MergedRun, changes: list[RunChange]) -> MergedRun:
    for change in changes:
        run.apply(change)
    values = run.values
    _default(values, "start_time", datetime.now(UTC))
    _default(values, "name", "Unnamed")
    _default(values, "run_type", "chain")
    return run


def _default(values: dict[str, Any], name: str, value: Any) -> None:
    if values.get(name) is None:
        values[name] = value

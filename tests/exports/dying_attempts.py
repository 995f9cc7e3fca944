"""Attempts of one export run that die, one after the other, each a step later than the one before.

`python -m tests.exports.dying_attempts '<json>'`: each attempt is a process of its own, which ends itself by
`os._exit`, as if killed, before its k-th step for k = 1, 2, …: a step is every call to the bucket or to the run's
record, and every heartbeat. Prints how many attempts it took.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from temporalio.testing import ActivityEnvironment

from activities.export_run import ExportRunActivities, PipelineSizes
from storage.database import Database
from storage.export_runs import ExportRuns
from storage.s3_upload import Bucket
from storage.secrets import load_secret_box
from workflows.messages.export import ExportRef, RunExport

_DIED = 9
_MAX_ATTEMPTS = 400
# Small files of two parts each; a part has 5 MiB at least.
_MB = 1024 * 1024
SIZES = PipelineSizes(batch_bytes=_MB, row_group_bytes=_MB, part_bytes=5 * _MB, file_bytes=6 * _MB)


class Steps:
    """Counts steps, and dies before the last one allowed."""

    def __init__(self, last: int) -> None:
        self._left = last

    def take(self, *_: Any) -> None:
        self._left -= 1
        if self._left <= 0:
            os._exit(_DIED)

    def watch(self, owner: type, names: tuple[str, ...]) -> None:
        for name in names:
            setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*arguments: Any, **named: Any) -> Any:
            self.take()
            answer = await method(*arguments, **named)
            self.take()
            return answer

        return counted


def main() -> None:
    given = json.loads(sys.argv[1])
    for attempt in range(1, _MAX_ATTEMPTS):
        child = os.fork()
        if child == 0:
            asyncio.run(_attempt(given, attempt))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            print(attempt)  # noqa: T201
            return
        assert os.waitstatus_to_exitcode(status) == _DIED, status
    raise SystemExit("never completed")


async def _attempt(given: dict[str, str], number: int) -> None:
    steps = Steps(number)
    steps.watch(Bucket, ("put", "create_upload", "upload_part", "complete_upload", "abort_upload"))
    steps.watch(ExportRuns, ("begin_attempt", "note_upload", "add_file", "complete"))
    environment = ActivityEnvironment()
    environment.on_heartbeat = steps.take
    async with Database(given["database_url"], 4) as database:
        activities = ExportRunActivities(
            database, load_secret_box(None, Path(given["home"])), allow_private_endpoints=True, sizes=SIZES
        )
        request = RunExport(ExportRef(given["tenant_id"], given["export_id"]), given["run_id"])
        result = await environment.run(activities.run, request)
    assert result.status == "COMPLETED", result


if __name__ == "__main__":
    main()

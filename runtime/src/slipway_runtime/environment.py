"""What the listener tells a revision worker through its environment."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from slipway_runtime.records import Limits

# Values of these are never secret; every other variable's value is masked in what leaves the process.
_PLAIN = re.compile(
    r"PATH|PWD|OLDPWD|HOME|USER|LOGNAME|SHELL|SHLVL|TERM|TZ|HOSTNAME|VIRTUAL_ENV|_|TMPDIR|LANG(UAGE)?|LC_\w+|PYTHON\w*|UV_\w+"
    r"|SLIPWAY_(DEPLOYMENT_ID|REVISION_ID|TENANT_ID|WORKER_SET_ID|PROJECT_CONFIG|WORKER_SLOTS|WORKER_GRACE_SECONDS)"
    r"|SLIPWAY_RUN_MAX_(EVENTS|EVENT_BYTES)"
    r"|TEMPORAL_(ADDRESS|NAMESPACE)|LANGSMITH_(PROJECT|TRACING|ENDPOINT)"
)
_SHORTEST_SECRET = 5


class WorkerEnvironmentError(Exception):
    """The process was started without a variable that it needs."""


@dataclass(frozen=True)
class WorkerEnvironment:
    """Whose worker this process is, and what it may use."""

    deployment_id: str
    revision_id: str
    tenant_id: str
    worker_set_id: str | None
    database_url: str
    project_config: Path
    slots: int
    grace_seconds: float
    limits: Limits

    @classmethod
    def read(cls, variables: Mapping[str, str]) -> "WorkerEnvironment":
        """From environment variables.

        Raises:
            WorkerEnvironmentError: a variable is missing or malformed; the message names it.
        """

        def required(name: str) -> str:
            if not variables.get(name):
                raise WorkerEnvironmentError(
                    f"{name} is not set; the listener sets it when it starts a worker."
                )
            return variables[name]

        def number(name: str, default: str, least: float) -> float:
            text = variables.get(name, default)
            try:
                value = float(text)
            except ValueError:
                value = least - 1
            if value < least:
                raise WorkerEnvironmentError(
                    f"{name} is {text!r}; it must be a number of at least {least:g}."
                )
            return value

        return cls(
            deployment_id=required("SLIPWAY_DEPLOYMENT_ID"),
            revision_id=required("SLIPWAY_REVISION_ID"),
            tenant_id=variables.get("SLIPWAY_TENANT_ID", ""),
            worker_set_id=variables.get("SLIPWAY_WORKER_SET_ID"),
            database_url=required("SLIPWAY_WORKER_DATABASE_URL"),
            project_config=Path(required("SLIPWAY_PROJECT_CONFIG")),
            slots=int(number("SLIPWAY_WORKER_SLOTS", "10", 1)),
            grace_seconds=number("SLIPWAY_WORKER_GRACE_SECONDS", "30", 0),
            limits=Limits(
                events=int(number("SLIPWAY_RUN_MAX_EVENTS", str(Limits.events), 1)),
                event_bytes=int(number("SLIPWAY_RUN_MAX_EVENT_BYTES", str(Limits.event_bytes), 1)),
            ),
        )


def mask_secrets(text: str, variables: Mapping[str, str] | None = None) -> str:
    """`text` with every value of a variable that may be secret replaced by `[NAME]`."""
    environment = os.environ if variables is None else variables
    values = sorted(
        ((value, name) for name, value in environment.items() if not _PLAIN.fullmatch(name)),
        key=lambda item: -len(item[0]),
    )
    for value, name in values:
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, f"[{name}]")
    return text

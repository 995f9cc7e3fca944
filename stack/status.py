"""`slipway status`: every process asked now, whatever the supervisor last saw."""

import sys
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from stack.child import Status
from stack.home import Home
from stack.processes import is_alive


def print_status(path: Path, as_json: bool) -> bool:
    """Print the state of the stack of this home; returns whether it is ready."""
    status = read_status(Home(path.absolute()))
    if as_json:
        sys.stdout.write(orjson.dumps(status, option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        _print_table(status)
    return bool(status["ready"])


def read_status(home: Home) -> dict[str, Any]:
    """`ready`, `home`, `supervisor` (process id), `addresses` and `processes`, as the supervisor last wrote them.

    Ready means: the supervisor lives, and it and each of its processes were found serving within the last seconds.
    """
    state = home.read_state()
    running = home.is_locked()
    if state is None or not running:
        return {"ready": False, "home": str(home.path), "supervisor": None, "addresses": {}, "processes": []}
    processes = state["processes"]
    healthy = all(
        process["status"] == Status.HEALTHY and process["pid"] and is_alive(process["pid"])
        for process in processes
    )
    return {
        "ready": bool(state["ready"]) and healthy,
        "home": str(home.path),
        "supervisor": state["supervisor"],
        "addresses": state["addresses"],
        "processes": processes,
    }


def _print_table(status: dict[str, Any]) -> None:
    console = Console()
    console.print("[green]ready[/green]" if status["ready"] else "[red]not ready[/red]", status["home"])
    addresses = Table.grid(padding=(0, 2))
    for name, value in status["addresses"].items():
        addresses.add_row(name, value)
    console.print(addresses)
    processes = Table("process", "pid", "status", "restarts", "problem")
    for process in status["processes"]:
        row = (process["name"], str(process["pid"] or "-"), process["status"], str(process["restarts"]))
        processes.add_row(*row, process["problem"] or "")
    console.print(processes)

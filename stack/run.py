"""`slipway up` as a command: what it prints and how it ends."""

import asyncio
import time
from typing import Any

import psycopg
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from temporalio.service import RPCError

from settings import Settings
from stack.bootstrap import FirstKey, bootstrap
from stack.buckets import ObjectStoreError
from stack.chat import chat_link, deploy_chat
from stack.connections import Addresses
from stack.health import connect_temporal
from stack.home import AlreadyRunningError, Home
from stack.logs import configure_logging
from stack.ports import PortTakenError
from stack.postgres import PostgresError
from stack.postgres_user import SystemUserError
from stack.supervisor import StartError, Supervisor, run_stack

_EXPECTED = (
    AlreadyRunningError,
    ObjectStoreError,
    OSError,
    PortTakenError,
    PostgresError,
    StartError,
    SystemUserError,
)


def run_in_foreground(settings: Settings, while_pid: int | None = None) -> int:
    """Run the stack until it is told to stop. Returns the exit code."""
    configure_logging(settings)
    started = time.monotonic()
    console = Console()
    background: list[asyncio.Task[None]] = []

    def on_ready(supervisor: Supervisor, key: FirstKey) -> None:
        api_url = supervisor.addresses.api_url
        console.print(_screen(supervisor, key, time.monotonic() - started))
        if not settings.chat_without_key:
            link = chat_link(settings, api_url, key.tenant_id)
            console.print(f"Sign in to the chat (valid for a day): {link}", soft_wrap=True, highlight=False)
        background.append(asyncio.create_task(deploy_chat(settings, api_url, key, console)))

    try:
        home = Home.open(settings.home)
        with home.lock():
            console.print(f"Starting Slipway in {home.path} …")
            asyncio.run(run_stack(home, settings, on_ready, while_pid))
    except _EXPECTED as error:
        Console(stderr=True).print(f"[red]Error:[/red] {error}", highlight=False, soft_wrap=True)
        return 1
    console.print("Slipway has stopped.")
    return 0


def bootstrap_configured(settings: Settings) -> int:
    """Prepare the configured servers; prints where the first key is. Returns the exit code."""
    home = Home.open(settings.home)
    addresses = Addresses.of(settings, home.credentials(), None)

    async def prepare() -> FirstKey:
        temporal = await connect_temporal(addresses.temporal)
        return await bootstrap(
            home, addresses.database_url, temporal, addresses.object_store, [settings.s3_bucket]
        )

    try:
        key = asyncio.run(prepare())
    except (ObjectStoreError, RuntimeError, psycopg.Error, RPCError) as error:
        Console(stderr=True).print(f"[red]Error:[/red] {error}", highlight=False, soft_wrap=True)
        return 1
    Console().print(f"Ready. The key of workspace {key.tenant_id} is in {home.api_key}.", soft_wrap=True)
    return 0


def _screen(supervisor: Supervisor, key: FirstKey, seconds: float) -> Any:
    addresses = supervisor.addresses.public()
    table = Table.grid(padding=(0, 2))
    rows = {
        "API": addresses["api_url"],
        "API reference": addresses["docs_url"],
        "Chat": addresses["chat_url"],
        "Temporal UI": addresses["temporal_ui_url"],
        "S3 endpoint": addresses["s3_endpoint_url"],
        "Workspace": str(key.tenant_id),
        "API key": key.text if key.created else f"in {supervisor.home.api_key}",
    }
    for name, value in rows.items():
        table.add_row(f"[bold]{name}[/bold]", value)
    for notice in supervisor.notices:
        table.add_row("Note", notice)
    table.add_row("", "[dim]Try it: slipway demo   Stop: Ctrl-C[/dim]")
    return Panel(table, title=f"Slipway is ready ({seconds:.1f} s)", expand=False)

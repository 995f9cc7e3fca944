"""Commands about workspaces and keys, straight on the database: for operators of the installation."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import copy
from typing import Annotated, TypeVar
from uuid import UUID

import psycopg
import typer
from psycopg.rows import dict_row
from rich.console import Console
from rich.table import Column, Table

from settings import Settings, load_settings
from storage.database import Connection
from storage.tenancy import (
    Tenant,
    create_key,
    create_tenant,
    first_tenant,
    list_keys,
    list_tenants,
    revoke_key,
)

keys = typer.Typer(help="API keys of a workspace.", no_args_is_help=True)
tenants = typer.Typer(help="Workspaces.", no_args_is_help=True)

TenantOption = Annotated[UUID | None, typer.Option("--tenant", help="Workspace id; default: the first one.")]
T = TypeVar("T")

# Never folded, however narrow the output: ids are copied from it.
_ID = Column("id", no_wrap=True, min_width=36)


@keys.command("create")
def create_key_command(
    name: Annotated[str, typer.Argument(help="What the key is for.")], tenant: TenantOption = None
) -> None:
    """Make a key and print it; it cannot be shown again."""

    async def work(connection: Connection) -> str:
        return await create_key(connection, (await _tenant(connection, tenant)).tenant_id, name)

    typer.echo(_with_database(work))


@keys.command("list")
def list_keys_command(tenant: TenantOption = None) -> None:
    """Keys of a workspace, without their text."""

    async def work(connection: Connection) -> Table:
        table = Table(copy(_ID), "name", "begins with", "scope", "created", "revoked")
        for key in await list_keys(connection, (await _tenant(connection, tenant)).tenant_id):
            revoked = f"{key.revoked_at:%Y-%m-%d %H:%M}" if key.revoked_at else ""
            created = f"{key.created_at:%Y-%m-%d %H:%M}"
            table.add_row(str(key.key_id), key.name, f"{key.prefix}…", key.scope, created, revoked)
        return table

    Console().print(_with_database(work))


@keys.command("revoke")
def revoke_key_command(key_id: UUID, tenant: TenantOption = None) -> None:
    """Make a key invalid."""

    async def work(connection: Connection) -> bool:
        return await revoke_key(connection, (await _tenant(connection, tenant)).tenant_id, key_id)

    if not _with_database(work):
        typer.echo(f"Error: the workspace has no valid key {key_id}.", err=True)
        raise typer.Exit(1)


@tenants.command("create")
def create_tenant_command(name: str) -> None:
    """Make a workspace and print its id."""

    async def work(connection: Connection) -> Tenant:
        return await create_tenant(connection, name)

    typer.echo(str(_with_database(work).tenant_id))


@tenants.command("list")
def list_tenants_command() -> None:
    """All workspaces, oldest first."""

    async def work(connection: Connection) -> Table:
        table = Table(copy(_ID), "name", "plan")
        for tenant in await list_tenants(connection):
            table.add_row(str(tenant.tenant_id), tenant.name, tenant.plan)
        return table

    Console().print(_with_database(work))


async def _tenant(connection: Connection, wanted: UUID | None) -> Tenant:
    if wanted is None:
        tenant = await first_tenant(connection)
    else:
        tenant = next((known for known in await list_tenants(connection) if known.tenant_id == wanted), None)
    if tenant is None:
        raise typer.BadParameter(
            f"There is no workspace {wanted}." if wanted else "There is no workspace yet."
        )
    return tenant


def _with_database(work: Callable[[Connection], Awaitable[T]]) -> T:
    """Run `work` in one transaction on the configured database."""

    async def run() -> T:
        async with _connected(load_settings()) as connection:
            return await work(connection)

    try:
        return asyncio.run(run())
    except (RuntimeError, psycopg.OperationalError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(1) from None


@asynccontextmanager
async def _connected(settings: Settings) -> AsyncIterator[Connection]:
    connection = await psycopg.AsyncConnection.connect(settings.require_database_url(), row_factory=dict_row)
    async with connection:
        yield connection

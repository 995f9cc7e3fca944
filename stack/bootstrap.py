"""What a new installation needs before its first request. Every step may be repeated."""

import asyncio
from dataclasses import dataclass
from uuid import UUID

import psycopg
import structlog
from psycopg.rows import dict_row
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from stack.buckets import BucketAccess
from stack.home import Home, write_secret
from storage.migrate import migrate
from storage.tenancy import create_key, create_tenant, find_key_holder, first_tenant
from workflows.messages import search_attributes

log = structlog.get_logger()

DEFAULT_WORKSPACE = "default"


@dataclass(frozen=True)
class FirstKey:
    """The key in `$SLIPWAY_HOME/api-key`; `created` is true if this start made it."""

    text: str
    tenant_id: UUID
    created: bool


async def bootstrap(
    home: Home, database_url: str, temporal: Client, access: BucketAccess, buckets: list[str]
) -> FirstKey:
    """Schema, first workspace and key, search attributes and buckets. Returns the first key."""
    await asyncio.to_thread(migrate, database_url)
    await asyncio.gather(
        register_search_attributes(temporal), *(access.ensure_bucket(name) for name in buckets)
    )
    return await ensure_first_key(home, database_url)


async def ensure_first_key(home: Home, database_url: str) -> FirstKey:
    """The default workspace and a valid key of it in the home's file."""
    connection = await psycopg.AsyncConnection.connect(database_url, row_factory=dict_row)
    async with connection:
        text = home.api_key.read_text().strip() if home.api_key.exists() else None
        holder = await find_key_holder(connection, text) if text else None
        if text and holder:
            return FirstKey(text, holder.tenant.tenant_id, created=False)
        tenant = await first_tenant(connection) or await create_tenant(connection, DEFAULT_WORKSPACE)
        text = await create_key(connection, tenant.tenant_id, "first key")
        # Before the commit: a key that nobody could read again would be worse than a file that is written again.
        write_secret(home.api_key, text + "\n")
    return FirstKey(text, tenant.tenant_id, created=True)


async def register_search_attributes(client: Client) -> None:
    """Register ours with Temporal; one that is registered already stays as it is."""
    request = AddSearchAttributesRequest(
        namespace=client.namespace,
        search_attributes=dict.fromkeys(
            search_attributes.KEYWORDS, IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
        ),
    )
    try:
        await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        if error.status not in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
            raise
        log.warning(
            "search_attributes_not_registered",
            hint="Temporal Cloud: create these keyword attributes in its console",
            names=list(search_attributes.KEYWORDS),
        )

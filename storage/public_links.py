"""Links that show one dataset or one trace to whoever has them (trace contract §5.8)."""

from uuid import UUID, uuid4

from psycopg.rows import DictRow

from storage.database import Connection


class LinkTakenError(Exception):
    """The token that a client asked for belongs to something else."""


async def share(
    connection: Connection,
    tenant_id: UUID,
    *,
    dataset_id: UUID | None = None,
    trace_id: UUID | None = None,
    token: UUID | None = None,
) -> UUID:
    """The token of a dataset or a trace: the one it has, else the given one, else one that nobody can guess.

    Raises:
        LinkTakenError: the given token is in use.
    """
    subject = {"tenant_id": tenant_id, "dataset_id": dataset_id, "trace_id": trace_id}
    cursor = await connection.execute(
        "INSERT INTO public_links (token, tenant_id, dataset_id, trace_id)"
        " VALUES (%(token)s, %(tenant_id)s, %(dataset_id)s, %(trace_id)s) ON CONFLICT DO NOTHING",
        {**subject, "token": token or uuid4()},
    )
    found = await token_of(connection, tenant_id, dataset_id=dataset_id, trace_id=trace_id)
    if found is None:
        assert cursor.rowcount == 0
        raise LinkTakenError(f"The share token {token} is in use.")
    return found


async def token_of(
    connection: Connection, tenant_id: UUID, *, dataset_id: UUID | None = None, trace_id: UUID | None = None
) -> UUID | None:
    """The token of a dataset or a trace; None if it is not shared."""
    cursor = await connection.execute(
        "SELECT token FROM public_links WHERE tenant_id = %s AND (dataset_id = %s OR trace_id = %s)",
        (tenant_id, dataset_id, trace_id),
    )
    row = await cursor.fetchone()
    return row["token"] if row else None


async def tokens_of_runs(connection: Connection, tenant_id: UUID, trace_ids: list[UUID]) -> dict[UUID, UUID]:
    """Tokens of those traces that are shared."""
    cursor = await connection.execute(
        "SELECT trace_id, token FROM public_links WHERE tenant_id = %s AND trace_id = ANY(%s)",
        (tenant_id, trace_ids),
    )
    return {row["trace_id"]: row["token"] for row in await cursor.fetchall()}


async def unshare(
    connection: Connection, tenant_id: UUID, *, dataset_id: UUID | None = None, trace_id: UUID | None = None
) -> None:
    """End the link of a dataset or a trace; nothing where there is none."""
    await connection.execute(
        "DELETE FROM public_links WHERE tenant_id = %s AND (dataset_id = %s OR trace_id = %s)",
        (tenant_id, dataset_id, trace_id),
    )


async def find_link(connection: Connection, token: UUID) -> DictRow | None:
    """`tenant_id`, and `dataset_id` or `trace_id`, of a token; None if it is none."""
    cursor = await connection.execute(
        "SELECT tenant_id, dataset_id, trace_id FROM public_links WHERE token = %s", (token,)
    )
    return await cursor.fetchone()

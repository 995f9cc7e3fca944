"""Database roles of revision workers: one per deployment, held to its rows by row-level security."""

from uuid import UUID

from psycopg import sql

from storage.database import Connection

_GROUP = "slipway_workers"
# A role without a limit could take every connection of the server. This part of them leaves the platform its own.
_LARGEST_SHARE = 0.5


def role_name(deployment_id: UUID) -> str:
    """The role's name; `slipway_deployment()` in the schema reads the deployment out of it."""
    return f"slipway_worker_{deployment_id.hex}"


async def ensure_role(connection: Connection, deployment_id: UUID, password: str) -> None:
    """The deployment's role with this password, which leaves this process only as a SCRAM verifier."""
    name = role_name(deployment_id)
    cursor = await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (name,))
    verb = "ALTER" if await cursor.fetchone() else "CREATE"
    limit = await connection_limit(connection)
    verifier = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    await connection.execute(
        sql.SQL(
            "{} ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE CONNECTION LIMIT {} PASSWORD {}"
        ).format(sql.SQL(verb), sql.Identifier(name), sql.Literal(limit), sql.Literal(verifier))
    )
    await connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(_GROUP), sql.Identifier(name)))


async def connection_limit(connection: Connection) -> int:
    """Connections that all workers of one deployment may have together, on this server."""
    row = await (await connection.execute("SELECT current_setting('max_connections')::int AS all")).fetchone()
    assert row is not None
    return max(int(row["all"] * _LARGEST_SHARE), 1)


async def drop_role(connection: Connection, deployment_id: UUID) -> None:
    """Remove the role, which owns nothing: all its rights come from the group."""
    name = sql.Identifier(role_name(deployment_id))
    await connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(name))

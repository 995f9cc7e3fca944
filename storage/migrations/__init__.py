"""The schema's history. Written in SQL; a released migration is never edited."""

import psycopg
from alembic import op


def apply(statements: str) -> None:
    """Run SQL statements as written: no placeholders, any number of statements."""
    connection = op.get_bind().connection.driver_connection
    assert isinstance(connection, psycopg.Connection)
    connection.execute(statements.encode())

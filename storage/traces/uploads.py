"""Objects of attachments that are being uploaded: doomed, until the rows that refer to them are committed.

A key is written down before its object is sent, with the time at which the sweep deletes it. The transaction that
stores the row takes the key off the list. Whatever ends in between, the sweep finds what nobody refers to.
"""

from storage.database import Connection


class UploadExpiredError(Exception):
    """An upload took so long that its object may be deleted already."""


async def announce_uploads(connection: Connection, keys: list[str]) -> None:
    """Write down keys before their objects are sent; an hour from now the objects are deleted."""
    await connection.execute(
        "INSERT INTO doomed_objects (object_key, due_at) SELECT unnest(%s::text[]), now() + interval '1 hour'",
        (keys,),
    )


async def claim_uploads(connection: Connection, keys: list[str]) -> None:
    """Take keys off the list, in the transaction that stores the rows which refer to them.

    Raises:
        UploadExpiredError: one is no longer there, or so close to its end that the sweep might be faster.
    """
    if not keys:
        return
    cursor = await connection.execute(
        "DELETE FROM doomed_objects WHERE object_key = ANY(%s) AND due_at > now() + interval '10 minutes'",
        (keys,),
    )
    if cursor.rowcount != len(set(keys)):
        raise UploadExpiredError(f"{len(keys) - cursor.rowcount} of {len(keys)} uploads took too long.")


async def abandon_uploads(connection: Connection, keys: list[str]) -> None:
    """Nothing will refer to these: the next sweep deletes their objects."""
    await connection.execute("UPDATE doomed_objects SET due_at = now() WHERE object_key = ANY(%s)", (keys,))

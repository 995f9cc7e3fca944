"""API keys that this process has looked up, so that not every request asks the database."""

import hashlib
import time

from storage.database import Database
from storage.tenancy import KeyHolder, find_key_holder

_LIMIT = 10_000


class KeyCache:
    """Looked-up keys, trusted for `seconds`; holds hashes, never a key's text."""

    def __init__(self, database: Database, seconds: float) -> None:
        self._database = database
        self._seconds = seconds
        self._holders: dict[bytes, tuple[float, KeyHolder]] = {}

    async def find(self, text: str) -> KeyHolder | None:
        """Who holds the key, if anybody does."""
        digest = hashlib.sha256(text.encode()).digest()
        known = self._holders.get(digest)
        if known and known[0] > time.monotonic():
            return known[1]
        # Tracing SDKs wait 10 seconds for an answer: one that says "later" has to come before that.
        async with self._database.connection(wait_seconds=5.0) as connection:
            holder = await find_key_holder(connection, text)
        if holder is None:
            self._holders.pop(digest, None)
            return None
        if len(self._holders) >= _LIMIT:
            self._holders.clear()
        self._holders[digest] = (time.monotonic() + self._seconds, holder)
        return holder

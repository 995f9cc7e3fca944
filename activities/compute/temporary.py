"""Private folders for temporary files, one for each worker or build, which end with it."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from activities.removal import remove_tree


class TemporaryFolders:
    """Folders below one of the listener's own, with short paths: the addresses of sockets made there end at 107 bytes.

    `note` remembers that one folder, so that the next listener removes what a killed one left.
    """

    def __init__(self, note: Path) -> None:
        self._note = note
        self._root: Path | None = None

    def open(self) -> None:
        """Remove what was left, and begin anew."""
        with contextlib.suppress(FileNotFoundError):
            remove_tree(Path(self._note.read_text()))
        self._root = Path(tempfile.mkdtemp(prefix="slipway-"))
        self._note.write_text(str(self._root))

    def close(self) -> None:
        if self._root is not None:
            remove_tree(self._root)
            self._note.unlink(missing_ok=True)

    @contextlib.asynccontextmanager
    async def folder(self) -> AsyncIterator[Path]:
        """One folder, for as long as the block lasts."""
        assert self._root is not None, "not opened"
        made = Path(tempfile.mkdtemp(dir=self._root, prefix=""))
        try:
            yield made
        finally:
            await asyncio.to_thread(remove_tree, made)

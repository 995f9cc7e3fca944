"""Unpacking a tarball that somebody sent: nothing of it may leave its folder or fill the disk."""

import gzip
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, cast

_BLOCK_BYTES = 1024 * 1024
# tarfile reads extended headers whole: none is honestly larger.
_LARGEST_READ_BYTES = 4 * 1024 * 1024
_DEEPEST = 40
_LONGEST_NAME = 1_000


class UnsafeArchiveError(Exception):
    """The archive is refused; the message says which member, and why."""


def extract_project(archive: Path, folder: Path, *, limit_bytes: int, limit_files: int) -> int:
    """Unpack a tar.gz of plain files and folders into the empty `folder`; the number of files.

    Sizes are counted while they are unpacked, not believed from the headers. Owners, times and special permissions
    of members are ignored; of the mode only the owner's execute bit is kept.

    Raises:
        UnsafeArchiveError: no gzipped tar; a link or device; a path that is absolute or leads upwards; a name twice;
            too many or too large files.
    """
    members, size = 0, 0
    seen: set[PurePosixPath] = set()
    try:
        with gzip.open(archive) as file, _open(file, limit_bytes, limit_files) as tar:
            for member in tar:
                members += 1
                if members > limit_files:
                    raise UnsafeArchiveError(f"The archive has more than {limit_files} members.")
                path = _safe_path(member)
                if member.isdir():
                    (folder / path).mkdir(parents=True, exist_ok=True)
                    continue
                if path in seen:
                    raise UnsafeArchiveError(f"The archive has the file '{path}' twice.")
                seen.add(path)
                size += _write(tar, member, folder / path, limit_bytes - size)
    except (tarfile.TarError, EOFError, OSError, zlib.error, ValueError) as error:
        raise UnsafeArchiveError(f"The archive is not a readable tar.gz: {error}.") from error
    if not seen:
        raise UnsafeArchiveError("The archive has no files.")
    return len(seen)


class _Bounded:
    """A gzip file as tarfile reads it, which refuses single reads and positions that no honest archive needs."""

    def __init__(self, file: gzip.GzipFile, limit_bytes: int) -> None:
        self._file = file
        self._limit = limit_bytes

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > _LARGEST_READ_BYTES:
            raise UnsafeArchiveError("The archive has an oversized header.")
        return self._file.read(size)

    def seek(self, position: int) -> int:
        if position > self._limit:
            raise UnsafeArchiveError("The archive's files are too large altogether once unpacked.")
        return self._file.seek(position)

    def tell(self) -> int:
        return self._file.tell()


def _open(file: gzip.GzipFile, limit_bytes: int, limit_files: int) -> tarfile.TarFile:
    padding = (limit_files + 2) * 2 * tarfile.RECORDSIZE
    return tarfile.open(fileobj=cast(IO[bytes], _Bounded(file, limit_bytes + padding)), mode="r:")


def _safe_path(member: tarfile.TarInfo) -> PurePosixPath:
    name = member.name
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise UnsafeArchiveError(
            f"'{name[:200]}' is a link or a device; only files and folders are accepted."
        )
    if not name or len(name) > _LONGEST_NAME or "\0" in name or "\\" in name:
        raise UnsafeArchiveError(f"The archive has an unusable file name: '{name[:200]}'.")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise UnsafeArchiveError(f"'{name[:200]}' leads out of the project.")
    if len(path.parts) > _DEEPEST:
        raise UnsafeArchiveError(f"'{name[:200]}' lies more than {_DEEPEST} folders deep.")
    return path


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, remaining: int) -> int:
    """Bytes written."""
    source = tar.extractfile(member)
    assert source is not None
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with target.open("xb") as file:
        while block := source.read(_BLOCK_BYTES):
            written += len(block)
            if written > remaining:
                raise UnsafeArchiveError("The archive's files are too large altogether once unpacked.")
            file.write(block)
    target.chmod(0o755 if member.mode & 0o100 else 0o644)
    return written

"""Keeps the memory of a process that exports bounded, without paying for it in page faults."""

import ctypes
import os
import sys

# Read when Arrow is loaded, so this module must come before it (worker.py). Arrow's own pools keep memory per thread,
# and an export run has threads of its own.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

# Of glibc's mallopt. Left to itself, glibc gives each thread an arena of its own, and what an export frees stays in
# all of them. Every block that is mapped by itself costs page faults instead: so only the parts of uploads are, which
# would tear the holes, and not the columns and pages of a row group.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_MB = 1024 * 1024


def keep_large_blocks() -> None:
    """Let export runs use the same memory again and again. Call once, before the process starts threads."""
    if glibc := _glibc():
        glibc.mallopt(_M_ARENA_MAX, 2)
        glibc.mallopt(_M_MMAP_THRESHOLD, 2 * _MB)
        glibc.mallopt(_M_TRIM_THRESHOLD, 32 * _MB)


def give_back_memory() -> None:
    """What is free goes back to the system: for when no export run is left."""
    if glibc := _glibc():
        glibc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        found = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return found if hasattr(found, "mallopt") and hasattr(found, "malloc_trim") else None

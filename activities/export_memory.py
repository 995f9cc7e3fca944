"""Keeps the memory of a process that exports close to what it uses."""

import ctypes
import sys

# Of glibc's mallopt: blocks from this size on are mapped one by one, and given back when they are freed. By itself
# glibc raises the limit to 32 MB as such blocks are freed, and then parts of uploads stay in its arenas for good.
_M_MMAP_THRESHOLD = -3
_THRESHOLD_BYTES = 1024 * 1024


def give_back_large_blocks() -> None:
    """Call once per process; does nothing where the C library is not glibc."""
    if not sys.platform.startswith("linux"):
        return
    try:
        ctypes.CDLL("libc.so.6").mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)
    except (OSError, AttributeError):
        return

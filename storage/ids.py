"""Identifiers made by the server: UUIDv7, so that they sort by time of creation."""

import os
import time
import uuid


def new_id() -> uuid.UUID:
    """A UUIDv7: 48 bits of milliseconds, then randomness."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value &= ~(0xF << 76) & ~(0x3 << 62)
    return uuid.UUID(int=value | 0x7 << 76 | 0x2 << 62)

"""Landlock: a process gives up files, signals and sockets, for itself and all that it starts. Linux.

With the standard library alone, because the launcher uses it. Numbers are those of linux/landlock.h and
linux/prctl.h; what an older kernel does not know is left out of what is asked of it.
"""

import contextlib
import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable

# The first version that also keeps signals and abstract sockets apart (Linux 6.12).
FULL_ABI = 6

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_ALL_OF_ABI_1 = (1 << 13) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_READ = _EXECUTE | _READ_FILE | _READ_DIR
# Without making devices, and without talking to those that might already be there.
_WRITE = (_ALL_OF_ABI_1 | _REFER | _TRUNCATE) & ~(_MAKE_CHAR | _MAKE_BLOCK)
_USE = _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV

_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPABILITY_VERSION_3 = 0x20080522


def abi() -> int:
    """The version of Landlock that this kernel offers; 0 for none."""
    if sys.platform != "linux":
        return 0
    version: int = _libc().syscall(_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    return max(version, 0)


def restrict(*, read: Iterable[str], write: Iterable[str], use: Iterable[str]) -> None:
    """From now on only read and execute below `read`, change anything below `write`, and use the devices `use`.

    Paths that do not exist are left out. A path in `write` must not itself be a link, and nothing that is restricted
    may be able to replace it. Signals, tracing and abstract sockets reach only what is restricted together with this
    process. Capabilities are given up, those of root included.

    Raises:
        OSError: the kernel refused; nothing may be run then.
    """
    version = abi()
    handled = _ALL_OF_ABI_1
    handled |= _REFER if version >= 2 else 0
    handled |= _TRUNCATE if version >= 3 else 0
    handled |= _IOCTL_DEV if version >= 5 else 0
    scoped = _SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS if version >= FULL_ABI else 0
    # A kernel refuses fields that it does not know, unless they are zero.
    attributes = struct.pack("=QQQ", handled, 0, scoped)
    ruleset = _call(_CREATE_RULESET, ctypes.c_char_p(attributes), ctypes.c_size_t(len(attributes)), 0)
    try:
        for paths, rights, flags in ((read, _READ, 0), (use, _USE, 0), (write, _WRITE, os.O_NOFOLLOW)):
            for path in paths:
                _allow(ruleset, path, rights & handled, flags)
        _drop_bounding_set()
        _check(_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    _drop_capabilities()


def _allow(ruleset: int, path: str, rights: int, flags: int) -> None:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | flags)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISLNK(mode):
                raise OSError(f"{path} is a link.")
            if not stat.S_ISDIR(mode):
                rights &= _OF_FILES
            rule = ctypes.c_char_p(struct.pack("=Qi", rights, descriptor))
            _call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)


def _drop_bounding_set() -> None:
    """So that no program that is executed gets a capability back; without capabilities there is nothing to drop."""
    for capability in range(64):
        if _libc().prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            return


def _drop_capabilities() -> None:
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc().capset(ctypes.c_char_p(header), ctypes.c_char_p(bytes(24))))


def _call(number: int, *arguments: object) -> int:
    return _check(_libc().syscall(number, *arguments))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"sandbox: {os.strerror(code)}")
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

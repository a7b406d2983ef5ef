"""Landlock: a program gives up access to all but some places, permanently and for everything that it starts.

The system calls are made by number, so nothing has to be installed. The available rights are determined on
first use: folders from ABI 1, TCP ports from 4, signals and abstract sockets from 6.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

import msgspec

from narval.system.seccomp import can_filter, refuse_sockets

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_PATH, _PORT = 1, 2
_PR_SET_NO_NEW_PRIVS = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_ALL_OF_1 = (1 << 13) - 1
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_BIND, _CONNECT = 1, 2
_SCOPES = 3

LANDLOCK, AUDIT_HOOK = "landlock", "an audit hook"


class Confinement(msgspec.Struct, frozen=True):
    """The only places that a program may reach: folders and files to read, to write and to execute, and the
    TCP ports to connect to; -1 among them means any.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    executes: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


@cache
def abi() -> int:
    """The version of Landlock in this kernel; 0 if there is none, or it may not be used."""
    if sys.platform != "linux":
        return 0
    return max(0, _call(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION)))


def confinement() -> str:
    """The means of confinement here, for people: `Landlock (version 7)`, or `an audit hook`."""
    version = abi()
    return f"Landlock (version {version})" if version else AUDIT_HOOK


def confine_thread(limits: Confinement, *, has_hosts: bool) -> None:
    """Confine the calling thread, and everything that it starts, permanently by the system; without hosts it
    can open no sockets. Raises OSError.
    """
    restrict(limits)
    if can_filter():
        refuse_sockets(but_internet=has_hosts)


def restrict(limits: Confinement) -> None:
    """Confine the calling thread, and everything that it starts from now on. Raises OSError on failure."""
    version = abi()
    rights = _rights(version)
    attributes = (ctypes.c_uint64 * 3)(rights, 0, 0)
    size = 8
    any_port = -1 in limits.ports
    if version >= 4:
        attributes[1], size = (0 if any_port else _BIND | _CONNECT), 16
    if version >= 6:
        attributes[2], size = _SCOPES, 24
    rules = _call(_CREATE, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    if rules < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    try:
        reading = _READ_FILE | _READ_DIR
        for paths, allowed in (
            (limits.reads, reading),
            (limits.writes, rights & ~_EXECUTE),
            (limits.executes, reading | _EXECUTE),
        ):
            for path in paths:
                _allow(rules, path, allowed & rights)
        for port in limits.ports if version >= 4 and not any_port else ():
            rule = (ctypes.c_uint64 * 2)(_CONNECT, port)
            _add(rules, _PORT, rule)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
        if _call(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0)):
            raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    finally:
        os.close(rules)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _allow(rules: int, path: str, allowed: int) -> None:
    """Allow access to a folder, with everything below it, or to a file; a missing path is skipped."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(f"/proc/self/fd/{place}"):
            allowed &= _OF_FILES
        _add(rules, _PATH, _PathBeneath(allowed, place))
    finally:
        os.close(place)


def _add(rules: int, kind: int, rule: ctypes.Structure | ctypes.Array[ctypes.c_uint64]) -> None:
    if _call(_ADD, ctypes.c_int(rules), ctypes.c_int(kind), ctypes.byref(rule), ctypes.c_uint32(0)):
        raise OSError(ctypes.get_errno(), "landlock_add_rule")


def _rights(version: int) -> int:
    rights = _ALL_OF_1
    for since, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL)):
        if version >= since:
            rights |= right
    return rights


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return int(libc.syscall(ctypes.c_long(number), *arguments))

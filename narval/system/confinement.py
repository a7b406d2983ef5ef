"""Confinement: a program gives up access to all but some places, for good and for everything that it starts.

Landlock closes folders, programs and TCP ports. Its system calls are made by number, so nothing has to be
installed. The available rights are determined on first use: folders from ABI 1, TCP ports from 4, signals and
abstract sockets from 6. A filter of seccomp closes the rest: sockets of this machine, by which a program
could reach the daemon itself, UDP, the rings (io_uring) that open sockets unseen, the limits and priorities
of other programs, their shared memory and keys, and, for code that may write no folder, the modes, owners
and times of files.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from functools import cache

import msgspec

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

AUDIT_HOOK = "an audit hook"


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
        filter_calls(but_internet=has_hosts, but_attributes=any(map(os.path.isdir, limits.writes)))


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


# --- system calls that Landlock does not restrict -------------------------------------------------------


_PR_SET_SECCOMP, _FILTER = 22, 2
_LOAD, _EQUAL, _GREATER, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _ARGUMENT = 0, 4, 16, 8
_FOREIGN = 0x40000000
"""The first number of another system call interface on x86."""


class _Numbers(msgspec.Struct, frozen=True):
    """The numbers of an architecture's system calls."""

    architecture: int
    socket: int
    others: tuple[tuple[int, tuple[int, ...]], ...]
    """The calls that may alter other programs, each with the arguments that must be 0: this program."""
    shared: tuple[int, ...]
    """The calls by which programs share memory, semaphores, messages and keys."""
    attributes: tuple[int, ...]
    """The calls that alter the mode, owner, times and further attributes of a file."""


_NEW = (452, 463, 466, 469)
"""The newest calls that alter attributes of files: the same numbers everywhere."""

_SYSTEMS = {
    "x86_64": _Numbers(
        0xC000003E,
        41,
        ((302, (0,)), (203, (0,)), (144, (0,)), (142, (0,)), (314, (0,)), (141, (0, 1)), (251, (1,)),
         (256, (0,)), (279, (0,))),
        (*range(29, 32), *range(64, 72), 220, *range(248, 251)),
        (*range(90, 95), 132, *range(188, 191), *range(197, 200), 235, 260, 261, 268, 280, *_NEW),
    ),
    "aarch64": _Numbers(
        0xC00000B7,
        198,
        ((261, (0,)), (122, (0,)), (119, (0,)), (118, (0,)), (274, (0,)), (140, (0, 1)), (30, (1,)),
         (238, (0,)), (239, (0,))),
        (*range(186, 198), *range(217, 220)),
        (*range(5, 8), *range(14, 17), *range(52, 56), 88, *_NEW),
    ),
}  # fmt: skip
"""`others` are prlimit64, sched_setaffinity, _setscheduler, _setparam, _setattr, setpriority, ioprio_set,
migrate_pages and move_pages.
"""

_IO_URING_SETUP = 425

_INTERNET = (2, 10, 16)
"""The families of IPv4, IPv6, and netlink, by which a resolver queries the kernel."""


def can_filter() -> bool:
    """True if the numbers of this machine's system calls are supported."""
    return platform.system() == "Linux" and platform.machine() in _SYSTEMS


def filter_calls(*, but_internet: bool, but_attributes: bool) -> None:
    """Refuse the calling thread, and everything that it starts from now on, what Landlock does not restrict.

    It can open no sockets, with `but_internet` only internet sockets; a connected pair can still be opened.
    With `but_attributes` it may alter the modes, owners and times of files: those of any file of its user,
    since a filter sees no paths. The thread must have given up new privileges. Raises OSError.
    """
    numbers = _SYSTEMS[platform.machine()]
    refused = (_IO_URING_SETUP, *numbers.shared, *(() if but_attributes else numbers.attributes))
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, numbers.architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
        (_GREATER, 0, 1, _FOREIGN),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for number in refused:
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    for number, arguments in numbers.others:
        tests = [
            line
            for at in arguments
            for line in (
                (_LOAD, 0, 0, _FIRST_ARGUMENT + _ARGUMENT * at),
                (_EQUAL, 1, 0, 0),
                (_RETURN, 0, 0, _REFUSE),
            )
        ]
        code += [(_EQUAL, 0, len(tests) + 1, number), *tests, (_RETURN, 0, 0, _ALLOW)]
    code += [
        (_EQUAL, 1, 0, numbers.socket),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
    ]
    for family in _INTERNET if but_internet else ():
        code += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    code.append((_RETURN, 0, 0, _REFUSE))
    words = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = struct.pack("HP", len(code), ctypes.addressof(words))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.c_char_p(program), 0, 0):
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")

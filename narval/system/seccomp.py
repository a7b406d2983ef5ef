"""Seccomp: a program gives up opening certain sockets, permanently and for everything that it starts.

Landlock covers only TCP. This closes the rest: sockets of this machine, by which a program could reach the
daemon itself, UDP, and the rings (io_uring) that open sockets unseen.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_PR_SET_SECCOMP, _FILTER = 22, 2
_LOAD, _EQUAL, _GREATER, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_FOREIGN = 0x40000000
"""The first number of another system call interface on x86."""

_IO_URING_SETUP = 425
_SYSTEMS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""The number of an architecture, and the number of `socket` there."""

_INTERNET = (2, 10, 16)
"""The families of IPv4, IPv6, and netlink, by which a resolver queries the kernel."""


def can_filter() -> bool:
    """True if the numbers of this machine's system calls are supported."""
    return platform.system() == "Linux" and platform.machine() in _SYSTEMS


def refuse_sockets(*, but_internet: bool) -> None:
    """Prevent the calling thread, and everything that it starts from now on, from opening sockets, or with
    `but_internet` any but internet sockets; a connected pair can still be opened. The thread must have given
    up new privileges. Raises OSError.
    """
    architecture, socket = _SYSTEMS[platform.machine()]
    families = _INTERNET if but_internet else ()
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
        (_GREATER, 0, 1, _FOREIGN),
        (_RETURN, 0, 0, _REFUSE),
        (_EQUAL, 0, 1, _IO_URING_SETUP),
        (_RETURN, 0, 0, _REFUSE),
        (_EQUAL, 1, 0, socket),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
    ]
    for family in families:
        code += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    code.append((_RETURN, 0, 0, _REFUSE))
    words = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = struct.pack("HP", len(code), ctypes.addressof(words))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.c_char_p(program), 0, 0):
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")

"""Credentials of a program at the control socket, as the system reports them: its user, and its call.

A program that was started for a call has the id of that call in its environment. A program started without
that environment is identified by its ancestors, and by the leaders of its group and session.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from narval.surfaces.control.task_handle import CALL

UNTOLD = "?"
"""The call of a program of the daemon if nothing says which call it answers."""

_MOST_ANCESTORS = 64


def peer_uid(connection: Any) -> int:
    """The user whose program is at the other end, as the system reports.

    If the system does not report it, only the mode of the folder excludes others.
    """
    credentials = _credentials(connection)
    return os.geteuid() if credentials is None else credentials[1]


def peer_call(connection: Any, daemon: int | None = None, kept: Container[int] = ()) -> str:
    """The id of the call for which the program at the other end was started; "" for none.

    It is UNTOLD for a program that the daemon with this process id has started, directly or not, if its call
    is unknown. Exempt are the programs that it has `kept` beside it, such as the pages, by their process ids:
    any program can claim anything in its words and its environment. It is also UNTOLD if the program or one
    of its ancestors had ended before the check, or there are too many ancestors.
    """
    credentials = _credentials(connection)
    return call_of(credentials[0], daemon, kept) if credentials is not None else ""


def call_of(program: int, daemon: int | None = None, kept: Container[int] = ()) -> str:
    """The call of a program, as `peer_call` gives it."""
    lineage = list(_lineage(program, daemon))
    leaders = [leader for each in lineage[:1] for leader in (each.group, each.session)]
    for one in dict.fromkeys((program, *(each.program for each in lineage), *leaders)):
        if one != daemon and (call := _call_in_environment(one)):
            return call
    first, above = (lineage[-1].program, lineage[-1].parent) if lineage else (0, program)
    is_started = bool(lineage) and above == daemon
    is_cut = above > 1 and (len(lineage) == _MOST_ANCESTORS or _has_ended(above))
    return UNTOLD if is_cut or (is_started and first not in kept) else ""


class _Process(NamedTuple):
    """A process, and its parent, group and session."""

    program: int
    parent: int
    group: int
    session: int


def _lineage(program: int, daemon: int | None) -> Iterator[_Process]:
    """A process and its ancestors, up to the daemon or the first process."""
    for _ in range(_MOST_ANCESTORS):
        _, _, rest = _read(program, "stat").rpartition(b")")
        if not rest or program == daemon:
            return
        _, parent, group, session = rest.split(None, 4)[:4]
        yield _Process(program, int(parent), int(group), int(session))
        if int(parent) <= 1:
            return
        program = int(parent)


def _has_ended(program: int) -> bool:
    """True if no process has a number; one that the system only hides exists."""
    try:
        os.kill(program, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _call_in_environment(program: int) -> str:
    """The id of a call in the environment with which a process started; "" for none."""
    start = f"{CALL}=".encode()
    variables = (each for each in _read(program, "environ").split(b"\0") if each.startswith(start))
    return next(variables, start)[len(start) :].decode("utf-8", "replace")


def _read(program: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{program}/{name}").read_bytes()
    except OSError:  # it is gone, another user's, or the system does not say
        return b""


def _credentials(connection: Any) -> tuple[int, int] | None:
    """The process and the user at the other end; None if the system does not report it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return pid, uid

"""The socket at which a daemon listens, and whose programs are at the other end of its connections."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
from pathlib import Path
from typing import Any

from narval.surfaces.control import wire

_BACKLOG = 128


def peer_uid(connection: Any) -> int:
    """The user whose program is at the other end, by the system's account.

    Where the system has none, the mode of the folder alone keeps others out.
    """
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return os.geteuid()
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    uid: int = struct.unpack("3i", credentials)[1]
    return uid


def listener_at(path: Path) -> socket.socket:
    """A socket that listens at `path`, for its user alone from the first moment."""
    folder = path.parent
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        folder.chmod(0o700)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        with wire.address(path) as name:
            listener.bind(name)
        path.chmod(0o600)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener

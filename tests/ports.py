"""Ports for servers of tests that are told theirs before they listen, or that listen at one again."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from random import SystemRandom

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST = 10_000


def free_port() -> int:
    """A port of this machine that nobody has, below those that the system gives to whoever asks for any: it
    would give one of these to another program before a server that is told it listens there.
    """
    end = int(RANGE.read_text().split()[0]) if RANGE.exists() else 32_768
    while True:
        port = SystemRandom().randrange(FIRST, end)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port

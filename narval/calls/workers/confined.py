"""Confinement of a worker, before it loads foreign code.

The system enforces it where it can: folders, programs and TCP by Landlock, other sockets by seccomp. The
audit hook does the rest: it knows hosts by name, and without Landlock there is nothing else. It sees what
Python does, and does not stop code that tries to circumvent it.
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from narval.core.trust.covering import is_covered
from narval.system.confinement import Confinement, confine_thread

Found = TypeVar("Found")


class Confined(msgspec.Struct, frozen=True):
    """The places that a worker may reach, with hosts by name; `by_hook` if only the audit hook enforces them.

    `hosts` are written as in grants: `host smtp.example.org:587`. `environment` has the granted secrets.
    """

    limits: Confinement
    hosts: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    by_hook: bool = False


def confine(confined: Confined) -> None:
    """Confine this program permanently, while it has only one thread."""
    if not confined.by_hook:
        confine_thread(confined.limits, has_hosts=bool(confined.hosts))
    guard = _Guard(confined)
    sys.addaudithook(guard.hear)
    socket.getaddrinfo = guard.noting(socket.getaddrinfo, lambda rows: (str(row[4][0]) for row in rows))
    socket.gethostbyname = guard.noting(socket.gethostbyname, lambda address: (address,))


_READS = frozenset({"os.listdir", "os.scandir", "os.chdir"})
_WRITES = frozenset(
    {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
     "os.chown", "os.utime", "os.mknod", "os.setxattr", "os.removexattr", "shutil.rmtree"}
)  # fmt: skip
_PROGRAMS = frozenset({"os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "os.system"})
_REFUSED = frozenset(
    {"os.fork", "os.forkpty", "pty.spawn", "ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle",
     "ctypes.cdata", "ctypes.call_function", "os.kill", "os.killpg"}
)  # fmt: skip
"""The events by which code could circumvent a hook, or reach another program."""


class _Guard:
    """Watches what Python does, and refuses what is not granted."""

    def __init__(self, confined: Confined) -> None:
        limits = confined.limits
        self._hosts, self._by_hook = confined.hosts, confined.by_hook
        self._executes = _real(limits.executes)
        self._writes = _real(limits.writes)
        self._reads = (*_real(limits.reads), *self._writes, *self._executes)
        self._busy = False
        self._addresses: set[str] = set()
        """The addresses to which names of granted hosts have resolved."""

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raise PermissionError for what is not granted."""
        if event.startswith("socket."):
            self._socket(event, arguments)
        elif self._by_hook and not self._busy:
            self._busy = True
            try:
                self._place(event, arguments)
            finally:
                self._busy = False

    def noting(
        self, look_up: Callable[..., Found], addresses_of: Callable[[Found], Iterable[str]]
    ) -> Callable[..., Found]:
        """A function that looks up hosts, and permits connections to their addresses."""

        @functools.wraps(look_up)
        def looked_up(*arguments: Any, **options: Any) -> Found:
            answer = look_up(*arguments, **options)
            self._addresses.update(addresses_of(answer))
            return answer

        return looked_up

    def _place(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = arguments
            is_write = bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))
            is_write = is_write or (isinstance(mode, str) and any(letter in mode for letter in "wax+"))
            self._require(path, self._writes if is_write else self._reads, "write" if is_write else "read")
        elif event in _READS:
            self._require(arguments[0] if arguments else ".", self._reads, "read")
        elif event in _WRITES:
            for path in arguments[: 2 if event in ("os.rename", "os.link") else 1]:
                self._require(path, self._writes, "write")
        elif event in _PROGRAMS:
            name = arguments[0] if event != "subprocess.Popen" else arguments[0] or arguments[1][0]
            self._require(self._program(name), self._executes, "run")
        elif event in _REFUSED:
            raise PermissionError(1, f"not granted: {event}")

    def _program(self, name: Any) -> Any:
        """The path of a program, or its name as a path if there is no such program."""
        text = os.fsdecode(name)
        return name if "/" in text else shutil.which(text) or f"/{text}"

    def _require(self, path: Any, allowed: Iterable[str], what: str) -> None:
        if path is None or isinstance(path, int):
            return  # a file that is open already
        real = os.path.realpath(os.fsdecode(path))
        if not any(real == place or real.startswith(place.rstrip("/") + "/") for place in allowed):
            raise PermissionError(1, f"not granted: {what}", os.fsdecode(path))

    def _socket(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.getaddrinfo":
            self._host(arguments[0], arguments[1])
        elif event in ("socket.gethostbyname", "socket.gethostbyaddr"):
            self._host(arguments[0], None)
        elif event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind"):
            address = arguments[1]
            if not isinstance(address, tuple):
                raise PermissionError(1, f"not granted: {event}", str(address))
            host, port = address[:2]
            if event == "socket.bind" or host in self._addresses:
                self._port(port)
            else:
                self._host(host, port)

    def _host(self, host: Any, port: Any) -> None:
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        need = f"host {name}:{port}" if port else f"host {name}"
        if name is None or not (is_covered(need, self._hosts) or any(_same(name, of) for of in self._hosts)):
            raise PermissionError(1, f"not granted: host {name}")

    def _port(self, port: int) -> None:
        if not any(_has_port(of, port) for of in self._hosts):
            raise PermissionError(1, f"not granted: port {port}")


def _same(name: str, granted: str) -> bool:
    return is_covered(f"host {name}:{granted.rpartition(':')[2]}", (granted,))


def _has_port(granted: str, port: int) -> bool:
    number = granted.rpartition(":")[2]
    return not number.isdigit() or int(number) == port


def _real(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple({place for path in paths for place in (path, os.path.realpath(path))})

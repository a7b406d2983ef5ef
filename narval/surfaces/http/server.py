"""The server of the pages: uvicorn with h11, only on loopback or a Unix socket.

It differs from plain uvicorn in four ways. Nothing wakes it without a request (uvicorn checks ten times a
second if it should end). The whole header of a request must arrive within ten seconds, and an answer must be
read within ten. Connections are limited, and clients without a session or a token of a webhook cannot take
the places of those with one. Answers to invalid HTTP, which no application sees, have the headers of every
answer (M76).
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from narval.core.errors import OperatorError
from narval.surfaces.control import wire
from narval.surfaces.http.guard import ADMITTED, LIVE, SECURITY, Application, RequestLimits
from narval.surfaces.http.stream import PATIENCE

PORT = 7457
"""The default port; if it is taken, `PORTS` after it are tried."""

PORTS = 20

CONNECTIONS = 64
"""The most connections, not counting those on which a page is followed."""

STRANGERS = 32
"""The most connections whose latest request had neither a session nor a token of a webhook."""

_BACKLOG = 128
_ENDING = 2
"""Seconds for answers under way when the server ends."""

_NO_IPV6 = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


# --- where it listens ---------------------------------------------------------------------------------------


def loopback(port: int | None, before: int | None = None) -> list[socket.socket]:
    """Sockets that listen at a port of 127.0.0.1 and ::1; without a port, at `before`, or else at the first
    free one.

    Raises OperatorError if it is taken on either: `localhost` leads to both.
    """
    former = (before,) if before else ()
    for candidate in (port,) if port is not None else (*former, *range(PORT, PORT + PORTS)):
        try:
            return _both(candidate)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            refused = error
    if port is None:
        raise OperatorError(f"expected a free port of {PORT} to {PORT + PORTS - 1}; name one: --port N")
    why = "is taken" if refused.errno == errno.EADDRINUSE else "is not for you to take"
    raise OperatorError(f"port {port} {why}; name another one: --port N")


def listening_at(host: str, port: int) -> socket.socket:
    """A socket that listens at an address. Raises OperatorError if that is impossible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return _listening(family, host, port)
    except OSError as error:
        raise OperatorError(f"cannot listen at {host}, port {port}: {error.strerror}") from None


def _both(port: int) -> list[socket.socket]:
    first = _listening(socket.AF_INET, "127.0.0.1", port)
    try:
        return [first, _listening(socket.AF_INET6, "::1", first.getsockname()[1])]
    except OSError as error:
        if error.errno in _NO_IPV6:
            return [first]
        first.close()
        raise


def _listening(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    # With its protocol, as asyncio sets TCP_NODELAY only on such sockets.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


@contextmanager
def unix_socket(path: Path, *, for_group: bool = False) -> Iterator[socket.socket]:
    """A Unix socket that listens inside the context, for its user only, or also its group (a proxy's).

    One that a killed program left is replaced. Raises OperatorError for anything else at its path.
    """
    _clear(path)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)  # no other user may connect, not even before its mode is set
    try:
        with wire.address(path) as name:
            listener.bind(name)
    except OSError as error:
        listener.close()
        raise OperatorError(f"cannot listen at {path}: {error.strerror}") from None
    finally:
        os.umask(before)
    try:
        path.chmod(0o660 if for_group else 0o600)
        listener.listen(_BACKLOG)
        yield listener
    finally:
        listener.close()
        with suppress(FileNotFoundError):
            path.unlink()


def _clear(path: Path) -> None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(status.st_mode):
        raise OperatorError(f"expected no file at {path}, or the socket of a program that ended")
    with socket.socket(socket.AF_UNIX) as probe, wire.address(path) as name:
        try:
            probe.connect(name)
        except ConnectionRefusedError:
            path.unlink()
            return
    raise OperatorError(f"another program listens at {path}")


# --- how it serves ------------------------------------------------------------------------------------------


class PageServer(uvicorn.Server):
    """The server of an application on listening sockets, until `end`."""

    def __init__(
        self,
        application: Application,
        ready: Callable[[], None] = lambda: None,
        tls: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                http=_Connection,
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="critical",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                h11_max_incomplete_event_size=RequestLimits().header,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=_ENDING,
                ssl_certfile=tls[0] if tls is not None else None,
                ssl_keyfile=tls[1] if tls is not None else None,
            )
        )
        self._ready, self._ended = ready, asyncio.Event()

    def end(self) -> None:
        """End in good order: followed pages are notified at once, other answers have two seconds."""
        self.should_exit = True
        self._ended.set()
        for connection in list(self.server_state.connections):
            if isinstance(connection, _Connection) and connection.is_followed:
                connection.transport.close()

    async def main_loop(self) -> None:
        """Serve until the end, without polling."""
        await self.on_tick(0)
        self._ready()
        await self._ended.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program."""
        yield


class _Connection(H11Protocol):
    """One connection, with limits on the time for a header to arrive and for an answer to be read."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        """The timer that hangs up if the client does not read what was written."""
        self._since = self.loop.time()

    @property
    def is_busy(self) -> bool:
        """True while a request is answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_admitted(self) -> bool:
        """True if its latest request had a session, or the token of a webhook."""
        return self.scope is not None and ADMITTED in self.scope

    @property
    def is_followed(self) -> bool:
        """True while a page is followed on it."""
        return self.is_busy and self.cycle.response_started and self.scope["path"].endswith(LIVE)

    def connection_made(  # type: ignore[override] # as uvicorn has it
        self, transport: asyncio.Transport
    ) -> None:
        """Wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        # Writing pauses until the client has read everything; under TLS a limit of 0 would pause forever.
        transport.set_write_buffer_limits(high=1 if transport.get_extra_info("sslcontext") else 0)
        self._limit()
        self._make_room()

    def data_received(self, data: bytes) -> None:
        """Take what arrived."""
        super().data_received(data)
        self._limit()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the limits."""
        self._unlimit()
        self._read()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Hang up on a client that does not read what was written to it."""
        super().pause_writing()
        within = PATIENCE if self.is_followed else RequestLimits().taking
        self._unread = self.loop.call_later(within, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue to write: the client has read everything."""
        self._read()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid request."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(HTTPStatus.BAD_REQUEST, msg)
        self.transport.close()

    def _limit(self) -> None:
        """Limit the time for a header to arrive, if one is awaited."""
        if self.is_busy:
            self._unlimit()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(RequestLimits().sending, self.transport.abort)

    def _unlimit(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _make_room(self) -> None:
        """Hang up on another connection if there are too many, or on this one if all others are busy.

        If too many have no session or token, the oldest of them is closed, busy or not; otherwise an idle one
        is.
        """
        others = [one for one in self.connections if isinstance(one, _Connection) and one is not self]
        others = [one for one in others if not one.is_followed and not one.transport.is_closing()]
        strangers = [one for one in others if not one.is_admitted]
        if len(strangers) >= STRANGERS:
            leaving = strangers
        elif len(others) >= CONNECTIONS:
            leaving = [one for one in others if not one.is_busy] or strangers
        else:
            return
        if leaving:
            min(leaving, key=lambda one: one._since).transport.abort()
            return
        self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, f"All {CONNECTIONS} connections are busy; try again.")
        self.transport.close()

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        body = f"{sentence}\n".encode()
        headers = {
            **SECURITY,
            "content-type": "text/plain; charset=utf-8",
            "content-length": str(len(body)),
            "connection": "close",
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 {status.value} {status.phrase}\r\n{head}\r\n".encode() + body)

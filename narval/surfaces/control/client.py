"""The client of the control socket: asks a daemon, and waits for its answer.

Synchronous and light: only a socket and msgpack, so that a command which asks a daemon starts at once. It
imports the C module below `socket`, whose tables of constants take a twentieth of such a command's time.
"""

from __future__ import annotations

import _socket
import time
from typing import TYPE_CHECKING, Any

from narval.core.errors import STILL_AT_IT, DaemonGoneError, UnansweredError
from narval.surfaces.control import wire

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PATIENCE = 5.0
"""Seconds within which a live daemon greets a client."""

ANSWER = 60.0
"""Seconds that an answer may take, in addition to the wait that was requested."""

PAUSE = 0.05
"""Seconds between two tries at a home that another command holds for a moment."""

_NO_LISTENER = (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, EOFError)
"""The errors of a connection if no daemon listens, or one is just ending."""


class _BusyError(Exception):
    """The daemon has its most clients; it soon accepts more."""


class Client:
    """A connection to the daemon at the socket `path`, in the name of `acting_as`, and in that person's
    `session` of the monitor, if given.

    It asks the agent named `agent`, by default the home's own (G21). Raises DaemonGoneError.
    """

    record_only = False

    def __init__(
        self,
        path: Path | str,
        *,
        patience: float | None = None,
        answer: float = ANSWER,
        acting_as: str = "",
        agent: str = "",
        session: str = "",
    ) -> None:
        options = {"agent": agent, "as": acting_as, "session": session}
        asking = {name: value for name, value in options.items() if value}
        self._path, self._answer, self._asking = path, answer, [asking] if asking else []
        self._number = 0
        patience = PATIENCE if patience is None else patience
        until = time.monotonic() + patience
        while True:
            try:
                about = self._greeted(path, patience)
                break
            except _BusyError as error:
                if time.monotonic() + PAUSE > until:
                    raise DaemonGoneError(str(error)) from None
            time.sleep(PAUSE)
        self.about: dict[str, Any] = about if isinstance(about, dict) else {}

    def _greeted(self, path: Path | str, patience: float) -> Any:
        """Connect; returns what the daemon says about itself."""
        try:
            self._socket = _connect(path, patience)
        except OSError as error:
            raise DaemonGoneError(f"no daemon answers at {path}: {error.strerror or error}") from error
        try:
            _, _, refusal, about = self._receive(patience)
            if refusal is not None:
                why = wire.error_of(refusal)
                raise _BusyError(str(why)) if isinstance(why, DaemonGoneError) else why
        except BaseException:
            self._socket.close()
            raise
        return about

    @classmethod
    def reach(
        cls,
        path: Path | str,
        *,
        patience: float | None = None,
        answer: float = ANSWER,
        acting_as: str = "",
        agent: str = "",
    ) -> Client | None:
        """A connection, or None if no daemon listens. Raises DaemonGoneError if it does not answer."""
        try:
            return cls(path, patience=patience, answer=answer, acting_as=acting_as, agent=agent)
        except DaemonGoneError as error:
            if isinstance(error.__cause__, _NO_LISTENER):
                return None
            raise

    def ask(self, method: str, /, **params: Any) -> Any:
        """The daemon's answer to an operation. Raises the daemon's error, or DaemonGoneError; after the
        request was sent UnansweredError.
        """
        self._number += 1
        limit = seconds_for(params, self._answer)
        self._send(wire.frame(wire.REQUEST, self._number, method, params, *self._asking), limit)
        return wire.answer_in(self._frames(limit))

    def closed(self, within: float) -> bool:
        """Wait until the daemon closes the connection; False after `within` seconds."""
        self._socket.settimeout(within)
        try:
            while self._socket.recv(4096):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _frames(self, limit: float) -> Iterator[list[Any]]:
        """The frames of the answer. Raises UnansweredError."""
        while True:
            try:
                fields = kind, number, error, _ = self._receive(limit, STILL_AT_IT)
                if error is None and (number != self._number or kind not in (wire.PART, wire.REPLY)):
                    raise self._gone("answered something that was not asked")
            except DaemonGoneError as gone:
                raise UnansweredError(str(gone)) from gone.__cause__
            yield fields

    def _send(self, data: bytes, limit: float) -> None:
        self._socket.settimeout(limit)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise self._gone(f"did not take the request within {limit:g} seconds") from None
        except OSError:
            return  # it hung up; its reason, if it gave one, is read next

    def _receive(self, limit: float, meanwhile: str = "") -> list[Any]:
        try:
            body = self._exactly(wire.length(self._exactly(wire.HEADER, limit)), limit)
            return wire.fields(body)
        except TimeoutError:
            silent = f"has not answered within {limit:g} seconds (narval log says more)"
            raise self._gone(", ".join(filter(None, (silent, meanwhile)))) from None
        except EOFError as error:
            raise self._gone("ended before it answered") from error
        except OSError as error:
            raise self._gone(f"cannot be heard: {error.strerror or error}") from error
        except wire.WireError as error:
            raise self._gone(f"does not speak as a daemon does: {error}") from None

    def _exactly(self, count: int, limit: float) -> bytes:
        data = bytearray(count)
        view, filled = memoryview(data), 0
        self._socket.settimeout(limit)
        while filled < count:
            received = self._socket.recv_into(view[filled:])
            if not received:
                raise EOFError
            filled += received
        return bytes(data)

    def _gone(self, what: str) -> DaemonGoneError:
        return DaemonGoneError(f"the daemon at {self._path} {what}")


def _connect(path: Path | str, patience: float) -> _socket.socket:
    """A connected socket. While the queue of a busy daemon is full, retry until patience ends."""
    deadline = time.monotonic() + patience
    while True:
        connection = _socket.socket(_socket.AF_UNIX)
        connection.settimeout(patience)
        try:
            with wire.address(path) as name:
                connection.connect(name)
        except BlockingIOError:
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        except BaseException:
            connection.close()
            raise
        else:
            return connection


_LONGEST = 10.0**8
"""The most seconds to wait for an answer: the system takes no timeout of more than 292 years."""


def seconds_for(params: Mapping[str, Any], answer: float = ANSWER) -> float:
    """The seconds that the answer to a request may take, including the wait that it requests."""
    waits = (params.get(name) for name in ("wait", "timeout"))
    numbers = (wait for wait in waits if isinstance(wait, int | float) and not isinstance(wait, bool))
    return answer + sum(max(0.0, wait) if wait < _LONGEST else _LONGEST for wait in numbers)

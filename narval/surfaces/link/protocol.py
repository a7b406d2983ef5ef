"""The protocol of a link over HTTP, and the client with which a command asks the daemon of another home.

A request has the token of its sender, and the versions that it supports: `Narval-Link: 1-2`. The answer names
those of the other side. Both use the newest common version; if there is none, the error says which side is
too old. The client is synchronous and light, as each command with `--peer` is a new program.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from narval import __version__
from narval.core.errors import (
    STILL_AT_IT,
    DaemonGoneError,
    NarvalError,
    OperatorError,
    RequestError,
    UnansweredError,
)
from narval.files.outside.peers import PeerSettings
from narval.surfaces.control import wire
from narval.surfaces.control.client import ANSWER, PATIENCE, seconds_for
from narval.system.secret import secret_named

EXCHANGE, ASK = "/link", "/ask"
"""The paths of the listener: an exchange of messages, and an operation."""

OLDEST, NEWEST = 1, 1
"""The versions of this protocol that are supported here."""

VERSIONS = "narval-link"
"""The header with the versions that one side supports."""

WAIT = "narval-wait"
"""The header with the seconds that an exchange may wait for messages."""

LONGEST_WAIT = 30.0
"""The longest wait of an exchange in seconds: networks between homes drop silent connections."""

FRAMES = "application/vnd.narval.frames"
"""The media type of frames."""

HEADERS = {VERSIONS: f"{OLDEST}-{NEWEST}", "user-agent": f"narval/{__version__}"}
"""The headers of each request of a peer, except its token."""


def token_for(peer: PeerSettings, home: Path) -> str:
    """The token for asking a peer. Raises OperatorError for an invalid one, without showing it."""
    try:
        token = secret_named(peer.token or "", home).strip()
    except ValueError as error:
        raise OperatorError(f"the peer {peer.name}: {error}") from None
    if not re.fullmatch(r"[!-~]+", token):
        raise OperatorError(f"the peer {peer.name}: the secret {peer.token} is no token, a word of ASCII")
    return token


class TooOldError(RequestError):
    """The two sides have no version in common; the message says which of them is too old."""


def check_versions(header: str | None, who: str) -> None:
    """Raise TooOldError unless the other side, named `who`, supports a version that is supported here."""
    span = re.fullmatch(r"([0-9]{1,6})-([0-9]{1,6})", header or "")
    if span is None:
        raise TooOldError(f"{who} names no versions of links that it knows: is that narval?")
    oldest, newest = int(span[1]), int(span[2])
    if newest < OLDEST:
        raise TooOldError(
            f"narval is too old at {who}: it knows links up to version {newest}, and this home {_known()}; "
            f"upgrade narval there"
        )
    if oldest > NEWEST:
        raise TooOldError(
            f"narval is too old here: {who} knows links from version {oldest} on, and this home {_known()}; "
            f"upgrade narval here"
        )


def refusal_of(status: int, body: bytes, peer: str, url: str) -> NarvalError:
    """The error in an answer without frames."""
    try:
        reason = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        reason = ""
    if not isinstance(reason, str) or not reason:
        return DaemonGoneError(f"the peer {peer} answers at {url} as no narval does: status {status}")
    reason = f"{reason[:1].lower()}{reason[1:].rstrip('.')}"
    if status == 401:
        return OperatorError(f"the peer {peer} does not let this home in: {reason}")
    if status >= 500:
        return DaemonGoneError(f"the peer {peer} cannot answer: {reason}")
    return RequestError(f"the peer {peer} refuses: {reason}")


def _known() -> str:
    return f"version {OLDEST}" if OLDEST == NEWEST else f"versions {OLDEST} to {NEWEST}"


# --- the client ---------------------------------------------------------------------------------------------


_MOST_TOLD = 64 * 1024
"""The most bytes that are read of a refusal."""

_ALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""The seconds after which the system checks whether a silent peer is still there."""


class PeerClient:
    """The interface to the operations of a peer; each request has its own connection."""

    record_only = False

    def __init__(
        self,
        peer: PeerSettings,
        home: Path,
        *,
        agent: str = "",
        patience: float | None = None,
        answer: float = ANSWER,
    ) -> None:
        if peer.url is None or peer.token is None:
            raise OperatorError(
                f"the peer {peer.name} cannot be asked: etc/peers.toml has no url and token of it; it asks us"
            )
        self._token = token_for(peer, home)
        self._peer, self._url, self._ca = peer.name, peer.url, peer.ca_file(home)
        self._asking = [{"agent": agent}] if agent else []
        self._patience, self._answer = PATIENCE if patience is None else patience, answer

    def ask(self, method: str, /, **params: Any) -> Any:
        """The peer's answer to an operation. Raises the peer's error, or DaemonGoneError; after the request
        was sent UnansweredError.
        """
        limit = seconds_for(params, self._answer)
        connection, within = self._connection(), self._patience
        gone: type[DaemonGoneError] = DaemonGoneError
        try:
            connection.connect()
            within, gone = limit, UnansweredError
            _keep_alive(connection.sock)
            connection.sock.settimeout(limit)
            headers = {
                **HEADERS,
                "content-type": FRAMES,
                "authorization": f"Bearer {self._token}",
            }
            connection.request(
                "POST", ASK, wire.frame(wire.REQUEST, 1, method, params, *self._asking), headers
            )
            response = connection.getresponse()
            if response.status != 200:
                body = response.read(_MOST_TOLD)
                raise _refusal(response.status, body, self._peer, self._url)
            check_versions(response.getheader(VERSIONS), self._peer)
            return wire.answer_in(_frames(response))
        except ssl.SSLCertVerificationError as error:
            why = f"the certificate of the peer {self._peer} is not trusted: {error.verify_message}"
            raise DaemonGoneError(f"{why}; name who signed it as ca in etc/peers.toml") from None
        except TimeoutError:
            silent = f"the peer {self._peer} has not answered at {self._url} within {within:g} seconds"
            raise gone(f"{silent}, {STILL_AT_IT}" if gone is UnansweredError else silent) from None
        except (EOFError, http.client.HTTPException, wire.WireError) as error:
            why = str(error) or "it hung up"
            raise UnansweredError(f"the peer {self._peer} ended before it answered: {why}") from None
        except OSError as error:
            why = error.strerror or str(error)
            raise gone(f"the peer {self._peer} cannot be reached at {self._url}: {why}") from None
        finally:
            connection.close()

    def close(self) -> None:
        """Do nothing: no connection is kept open."""

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._url)
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self._patience)
        return http.client.HTTPSConnection(
            host, port, timeout=self._patience, context=trusting(self._ca, self._peer)
        )


def trusting(ca: str | None, peer: str) -> ssl.SSLContext:
    """The TLS context for a peer: its certificate is checked against a file, else by the system's
    authorities.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise OperatorError(f"the peer {peer}: its ca {ca} cannot be used: {error}") from None


def _keep_alive(connection: socket.socket) -> None:
    """Have the system notice that a peer is gone during a long wait for an answer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in _ALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)


def _refusal(status: int, body: bytes, peer: str, url: str) -> NarvalError:
    """The error in an answer without frames; with most statuses the request may have been performed."""
    error = refusal_of(status, body, peer, url)
    return UnansweredError(str(error)) if status >= 500 and status != 503 else error


def _frames(response: http.client.HTTPResponse) -> Iterator[list[Any]]:
    while header := response.read(wire.HEADER):
        size = wire.length(header)
        body = response.read(size)
        if len(body) < size:
            raise EOFError
        yield wire.fields(body)

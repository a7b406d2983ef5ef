"""The protocol of a link over HTTP: its paths, its versions, and the form of refusals.

A request has the token of its sender, and the versions that it supports: `Narval-Link: 1-2`. The answer names
those of the other side. Both use the newest common version; if there is none, the error says which side is
too old.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from narval import __version__
from narval.core.errors import DaemonGoneError, NarvalError, OperatorError, RequestError
from narval.files.outside.peers import PeerSettings
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

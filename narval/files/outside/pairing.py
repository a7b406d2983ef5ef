"""Pairing: two homes become peers by a code that one prints and the other accepts.

The home that will send the requests makes a token, keeps it as its own secret, and prints a code with its
digest. So the code is not secret: it gives no access. It is valid for ten minutes, and once.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from narval.core.definitions.suggestions import closest
from narval.core.errors import DefinitionError, OperatorError
from narval.core.source.text import Source
from narval.core.source.toml import TomlText
from narval.files.agents.senders import new_token, token_digest
from narval.files.outside.peers import PEERS_FILE, load_peers, parse_peers, peer_name, peer_url
from narval.files.toml import Reader, quoted
from narval.system.whole_files import write_whole

HOLDS = 600
"""Seconds for which a code is valid."""

CODES = "var/link-codes"
"""The file of accepted codes, each with the end of its validity."""

_BEGIN = "narval-link-"
_encode = msgspec.msgpack.Encoder().encode


class _Code(NamedTuple):
    """The content of a code: its home's own name, the end of its validity, and the digest."""

    name: str
    until: int
    digest: bytes


_decode = msgspec.msgpack.Decoder(tuple[str, int, bytes]).decode


class NewPeer(NamedTuple):
    """A peer as named in a command: its name here, its address, the file to verify its certificate with, and
    the agents of this home that may write to it.
    """

    name: str
    url: str
    ca: str | None
    agents: Sequence[str]


def add_link(home: Path, peer: NewPeer, own_name: str, now: float) -> str:
    """Write the table of a peer that gets requests, and the secret; returns the code for the other side.

    Raises OperatorError, and OSError.
    """
    _check(peer_name, peer.name)
    url, secret = _check(peer_url, peer.url), f"link-{peer.name}"
    file = home / "etc" / secret
    if file.exists():
        there = f"{peer.name} is a peer already: `narval link remove {peer.name}` first, or take another name"
        raise OperatorError(there if peer.name in load_peers(home) else f"etc/{secret} is there: remove it")
    token = new_token()
    lines = [f'url = "{url}"', f'token = "{secret}"', *([f"ca = {quoted(peer.ca)}"] if peer.ca else [])]
    text = _with_table(home, peer.name, [*lines, *_rights(peer.agents)])
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as opened:
        opened.write(f"{token}\n")
    write_whole(home / PEERS_FILE, text)
    content = _encode(_Code(own_name, int(now) + HOLDS, bytes.fromhex(token_digest(token))))
    return _BEGIN + base64.urlsafe_b64encode(_sum(content) + content).decode().rstrip("=")


def accept_link(home: Path, code: str, name: str | None, agents: Sequence[str], now: float) -> str:
    """Write the table of the peer that printed a code; returns its name here, by default its own.

    Raises OperatorError for an invalid code, and OSError.
    """
    content = _read(code)
    name = _check(peer_name, name or content.name)
    digest = content.digest.hex()
    before = _accepted(home, now)
    if digest in before:
        raise OperatorError("this code was accepted already: make another there, narval link add")
    if now > content.until:
        raise OperatorError("this code has expired, after ten minutes: make another there, narval link add")
    text = _with_table(home, name, [f'token_sha256 = "{digest}"', *_rights(agents)])
    rows = [*(f"{one} {until}" for one, until in before.items()), f"{digest} {content.until}"]
    (home / CODES).parent.mkdir(exist_ok=True)
    write_whole(home / CODES, "".join(f"{row}\n" for row in rows))
    write_whole(home / PEERS_FILE, text)
    return name


def remove_link(home: Path, name: str) -> None:
    """Remove the table of a peer, and the secret that `add_link` made. Raises OperatorError, OSError."""
    source = Source(PEERS_FILE, _text(home).encode())
    try:
        toml = TomlText(source)
    except DefinitionError as error:
        raise OperatorError(str(error)) from None
    if name not in toml.table:
        raise OperatorError(f"there is no peer {name!r:.80} in {PEERS_FILE}{closest(name, toml.table)}")
    lines = source.text.splitlines(keepends=True)
    begins = sorted(toml.key(other)[0] - 1 for other in toml.table)
    first = toml.key(name)[0] - 1
    last = next((begin for begin in begins if begin > first), len(lines))
    while last < len(lines) and last - 1 > first and re.match(r"\s*(#|$)", lines[last - 1]):
        last -= 1  # comments above the next table belong to that table
    text = "".join([*lines[:first], *lines[last:]])
    by_hand = OperatorError(f"remove [{name}] from {PEERS_FILE} by hand: it is not written as one table")
    try:
        left = TomlText(Source(PEERS_FILE, text.encode())).table
    except DefinitionError:
        raise by_hand from None
    if left != {key: value for key, value in toml.table.items() if key != name}:
        raise by_hand
    write_whole(home / PEERS_FILE, text)
    table = toml.table[name]
    if isinstance(table, dict) and table.get("token") == f"link-{name}":
        with suppress(FileNotFoundError):
            (home / "etc" / f"link-{name}").unlink()


def _text(home: Path) -> str:
    try:
        return (home / PEERS_FILE).read_text("utf-8")
    except FileNotFoundError:
        return ""


def _with_table(home: Path, name: str, lines: Sequence[str]) -> str:
    """The text of the file with one more table. Raises OperatorError if it would have faults."""
    before = _text(home)
    peers, faults = parse_peers(Source(PEERS_FILE, before.encode()))
    if peers is not None and name in peers:
        raise OperatorError(f"[{name}] is in {PEERS_FILE} already: narval link remove {name}")
    ends = "" if before.endswith("\n") or not before else "\n"
    text = f"{before}{ends}{chr(10) if before else ''}[{name}]\n" + "".join(f"{line}\n" for line in lines)
    if peers is not None:
        peers, faults = parse_peers(Source(PEERS_FILE, text.encode()))
    if peers is None:
        raise OperatorError("\n".join(map(str, faults)))
    return text


def _rights(agents: Sequence[str]) -> list[str]:
    """The lines with the rights of a peer; those that grant nothing are comments."""
    named = ", ".join(map(quoted, agents))
    return [
        f"agents = [{named}]  # of this home, which may write to it and be written to"
        if agents
        else '# agents = ["*"]  # of this home, which may write to it and be written to; none yet',
        '# asks = ["read"]  # what it may ask here: read, write; nothing yet',
    ]


def _read(code: str) -> _Code:
    """The content of a code. Raises OperatorError for any other text."""
    text = "".join(code.split())
    try:
        letters = text.removeprefix(_BEGIN)
        data = base64.b64decode(letters + "=" * (-len(letters) % 4), b"-_", validate=True)
        content = _Code(*_decode(data[4:]))
        if not text.startswith(_BEGIN) or data[:4] != _sum(data[4:]) or len(content.digest) != 32:
            raise ValueError
    except (ValueError, msgspec.MsgspecError):
        raise OperatorError(
            f"expected a code that `narval link add` has printed, {_BEGIN}…, whole, got {text!r:.80}"
        ) from None
    return content


def _accepted(home: Path, now: float) -> dict[str, int]:
    """The accepted codes that are not expired, by their digests."""
    try:
        rows = [line.split(" ") for line in (home / CODES).read_text("ascii").splitlines()]
    except FileNotFoundError:
        return {}
    return {digest: int(until) for digest, until in rows if int(until) >= now}


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:4]


def _check(read: Reader, value: str) -> str:
    """A value as `read` reads it. Raises OperatorError."""
    try:
        return str(read(value))
    except ValueError as error:
        raise OperatorError(f"expected {error}, got {value!r:.80}") from None

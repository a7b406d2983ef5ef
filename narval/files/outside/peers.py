"""Peers: `etc/peers.toml`, the other homes with which this one is linked, with the rights of each.

This home sends requests to a peer with a known address, with a token that is a secret of this home. A peer
that sends requests authenticates with a token; the file has only its digest.

Two homes become peers by a code that one prints and the other accepts. The home that will send the requests
makes a token, keeps it as its own secret, and prints a code with its digest. So the code is not secret: it
gives no access. It is valid for ten minutes, and once.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from narval.core.agent_name import NAME
from narval.core.definitions.suggestions import closest
from narval.core.errors import DefinitionError, Fault, OperatorError
from narval.core.source.text import Source
from narval.core.source.toml import TomlText
from narval.files import toml
from narval.files.agents.senders import new_token, read_digest, same_tokens, token_digest
from narval.files.agents.settings import EVERYBODY
from narval.files.toml import Reader, quoted
from narval.files.web_settings import is_loopback
from narval.system.whole_files import CurrentFile, write_whole

PEERS_FILE = "etc/peers.toml"
"""The file of a home with its peers."""

PeerScope = Literal["read", "write"]
"""The right of a peer to ask operations: `read` leaves the home unchanged, `write` changes it."""

_SCOPES: tuple[PeerScope, ...] = ("read", "write")

peer_name = toml.fitting(
    NAME.fullmatch, "the name of a peer, a lower-case letter and up to 62 more, digits, - or _"
)


def peer_url(value: object) -> str:
    """Read the address of a peer, without a path. Raises ValueError with what was expected."""
    expected = 'an address of https, such as "https://office.example.org:8766"'
    if not isinstance(value, str) or not re.fullmatch(r"[!-~]+", value):
        raise ValueError(expected)
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(expected) from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise ValueError(expected)
    if parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"{expected}, with no path and no password")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError(f"{expected}: tokens go over it, and http is for this machine alone")
    return value.rstrip("/")


_agent = toml.fitting(
    lambda name: name == EVERYBODY or NAME.fullmatch(name), "the name of an agent, or * for all"
)
_AGENTS = toml.listed(_agent, 'agents of this home, such as ["shop"], or ["*"] for all')
_ASKS = toml.listed(toml.one_of(*_SCOPES), 'what may be asked, such as ["read"]')


class PeerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A peer: another home with which this one is linked, and all its rights here."""

    name: str
    """Its name here, from its table: `shop@office` is the agent shop of the peer office."""
    url: Annotated[str | None, toml.or_none(peer_url)] = None
    """The address for requests to it; empty: it gets none, and sends them."""
    token: Annotated[str | None, toml.or_none(toml.text)] = None
    """The name of the secret with which this home authenticates there: a variable, or a file in `etc/`."""
    token_sha256: Annotated[str | None, toml.or_none(read_digest)] = None
    """The SHA-256 of the token with which it authenticates here; empty: it cannot send requests."""
    ca: Annotated[str | None, toml.or_none(toml.text)] = None
    """The file of certificates (PEM) to verify that of its address with; empty: the system's."""
    agents: Annotated[tuple[str, ...], _AGENTS] = ()
    """The agents of this home that may write to its agents, and be written to by them; `*` is all."""
    asks: Annotated[tuple[PeerScope, ...], _ASKS] = ()
    """Its rights to ask this home, as `narval --peer` does: read, write."""
    requests: Annotated[int, toml.count(600_000)] = 60_000
    """The most requests from it in a minute."""
    bytes: Annotated[int, toml.size_up_to("1024M")] = 256 * 1024 * 1024
    """The most bytes from it in a minute."""

    def may_address(self, agent: str) -> bool:
        """True if this agent of the home may write to agents of the peer, and be written to by them."""
        return agent in self.agents or EVERYBODY in self.agents

    def ca_file(self, home: Path) -> str | None:
        """The path of the file of certificates; a relative one starts at the home."""
        return os.path.normpath(home / self.ca) if self.ca else None


Peers = Mapping[str, PeerSettings]
"""The peers of a home, by name."""

NO_PEERS: Peers = MappingProxyType({})


def read_peers(home: Path | None) -> tuple[Peers | None, list[Fault]]:
    """The peers of a home, or all the faults of their file, which is optional."""
    if home is None:
        return NO_PEERS, []
    return toml.outcome(toml.TomlFile.of(home / PEERS_FILE, PEERS_FILE), _peers)


def parse_peers(source: Source) -> tuple[Peers | None, list[Fault]]:
    """The peers in a text of TOML, or all its faults."""
    return toml.outcome(toml.TomlFile(source), _peers)


def load_peers(home: Path | None) -> Peers:
    """The peers of a home, or of one in memory. Raises SettingsError with all the faults of its file."""
    return toml.required(read_peers(home))


class PeersFile(CurrentFile[tuple[Peers | None, list[Fault]]]):
    """The peers of a home, as its file has them now."""

    def __init__(self, home: Path) -> None:
        super().__init__(home / PEERS_FILE, lambda: read_peers(home))

    def current(self) -> Peers:
        """The peers. Raises SettingsError with all the faults of the file."""
        return toml.required(self.get())


def _peers(file: toml.TomlFile) -> Peers:
    """The peers of a file; faults are noted there."""
    peers = {name: peer for name in file.table if (peer := _peer(file, name)) is not None}
    for name, other in same_tokens({name: peer.token_sha256 for name, peer in peers.items()}):
        message = f"{name}.token_sha256: expected a token of its own, found that of {other}"
        file.note((name, "token_sha256"), message, of_value=True)
    return MappingProxyType(peers)


def _peer(file: toml.TomlFile, name: str) -> PeerSettings | None:
    """The peer of a table; faults are noted."""
    before = len(file.faults)
    try:
        peer_name(name)
    except ValueError as error:
        file.note((name,), f"{name:.80}: expected {error}")
    values: dict[str, Any] = file.read(PeerSettings, name)
    if len(file.faults) > before:
        return None
    peer = PeerSettings(name=name, **values)
    if (peer.url is None) != (peer.token is None):
        needed = "url and token (this home asks it), or neither of them"
        file.note((name,), f"{name}: expected {needed}")
    elif peer.url is None and peer.token_sha256 is None:
        needed = "url and token (this home asks it), or token_sha256 (it asks this home)"
        file.note((name,), f"{name}: expected {needed}; `narval link add` and `link accept` write them")
    return peer


# --- two homes become peers -----------------------------------------------------------------------------

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
    _fitting(peer_name, peer.name)
    url, secret = _fitting(peer_url, peer.url), f"link-{peer.name}"
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
    return _BEGIN + base64.urlsafe_b64encode(_checksum(content) + content).decode().rstrip("=")


def accept_link(home: Path, code: str, name: str | None, agents: Sequence[str], now: float) -> str:
    """Write the table of the peer that printed a code; returns its name here, by default its own.

    Raises OperatorError for an invalid code, and OSError.
    """
    content = _content_of(code)
    name = _fitting(peer_name, name or content.name)
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
    source = Source(PEERS_FILE, _file_text(home).encode())
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


def _file_text(home: Path) -> str:
    try:
        return (home / PEERS_FILE).read_text("utf-8")
    except FileNotFoundError:
        return ""


def _with_table(home: Path, name: str, lines: Sequence[str]) -> str:
    """The text of the file with one more table. Raises OperatorError if it would have faults."""
    before = _file_text(home)
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


def _content_of(code: str) -> _Code:
    """The content of a code. Raises OperatorError for any other text."""
    text = "".join(code.split())
    try:
        letters = text.removeprefix(_BEGIN)
        data = base64.b64decode(letters + "=" * (-len(letters) % 4), b"-_", validate=True)
        content = _Code(*_decode(data[4:]))
        if not text.startswith(_BEGIN) or data[:4] != _checksum(data[4:]) or len(content.digest) != 32:
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


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:4]


def _fitting(read: Reader, value: str) -> str:
    """A value as `read` reads it. Raises OperatorError."""
    try:
        return str(read(value))
    except ValueError as error:
        raise OperatorError(f"expected {error}, got {value!r:.80}") from None

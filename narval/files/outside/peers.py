"""Peers: `etc/peers.toml`, the other homes with which this one is linked, with the rights of each.

This home sends requests to a peer with a known address, with a token that is a secret of this home. A peer
that sends requests authenticates with a token; the file has only its digest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from narval.core.agent_name import NAME
from narval.core.errors import Fault
from narval.core.source.text import Source
from narval.files import toml
from narval.files.agents.senders import read_digest, same_tokens
from narval.files.agents.settings import EVERYBODY
from narval.files.web_settings import is_loopback
from narval.system.whole_files import CurrentFile

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
    if home is None or not (home / PEERS_FILE).exists():
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

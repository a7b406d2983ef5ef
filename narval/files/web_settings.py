"""Settings of what `narval web` serves besides the pages: the tables `[web]` and `[link]`."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, TypeVar

import msgspec

from narval.files import toml
from narval.files.agents.senders import read_digest

WEB = "web"
"""The table of the settings."""

LINK = "link"
"""The table of the settings with the place where peers ask this home."""

_AT = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+|localhost)):([0-9]{1,5})")


def _address(value: object) -> str:
    match = _AT.fullmatch(value) if isinstance(value, str) else None
    try:
        if match is None or not 0 < int(match[3]) < 65_536:
            raise ValueError
        if match[2] != "localhost":
            ip_address(match[1] or match[2])
    except ValueError:
        raise ValueError('an address and a port, such as "127.0.0.1:8765"') from None
    return str(value)


_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[0-9]{1,5})?")
_NAMES = toml.listed(
    toml.fitting(_NAME.fullmatch, "the name of a host, such as narval.example.org"),
    'names of hosts, such as ["narval.example.org"]',
)


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of what `narval web` serves besides the pages."""

    mcp: Annotated[str | None, toml.or_none(_address)] = None
    """The address that serves MCP clients over HTTP; None: nowhere."""
    mcp_certificate: Annotated[str | None, toml.or_none(toml.text)] = None
    """The file with the certificate, and those above it (PEM); without one there is no TLS."""
    mcp_key: Annotated[str | None, toml.or_none(toml.text)] = None
    """The file with its key (PEM)."""
    mcp_names: Annotated[tuple[str, ...], _NAMES] = ()
    """The names with which clients may call this machine, besides the address and those of loopback."""
    edit: Annotated[bool, toml.flag] = False
    """True if operators may edit the files of definitions in the browser."""
    metrics_sha256: Annotated[str | None, toml.or_none(read_digest)] = None
    """The SHA-256 of the token that Prometheus presents at /metrics; None: metrics are not served."""

    @property
    def host(self) -> str:
        """The host of MCP, "" for none."""
        return host_and_port(self.mcp)[0]

    @property
    def port(self) -> int:
        """The port of MCP, 0 for none."""
        return host_and_port(self.mcp)[1]


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the place where peers ask this home; `narval web` serves it."""

    listen: Annotated[str | None, toml.or_none(_address)] = None
    """The address where peers ask this home; None: nowhere."""
    cert: Annotated[str | None, toml.or_none(toml.text)] = None
    """The file with the certificate, and those above it (PEM); without one there is no TLS."""
    key: Annotated[str | None, toml.or_none(toml.text)] = None
    """The file with its key (PEM)."""


def host_and_port(address: str | None) -> tuple[str, int]:
    """The host and the port of an address in the settings; "" and 0 for none."""
    host, _, port = (address or ":0").rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """True if a host, a name or an address, is only this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _is_open(address: str) -> bool:
    """True if other machines reach an address of the settings."""
    return not is_loopback(host_and_port(address)[0])


ServedT = TypeVar("ServedT", WebSettings, LinkSettings)


def read_web(file: toml.TomlFile) -> WebSettings:
    """The table `[web]` of a file of settings; faults are noted there."""
    return _served(file, WEB, WebSettings, "mcp", "mcp_certificate", "mcp_key")


def read_link(file: toml.TomlFile) -> LinkSettings:
    """The table `[link]` of a file of settings; faults are noted there."""
    return _served(file, LINK, LinkSettings, "listen", "cert", "key")


def _served(
    file: toml.TomlFile, table: str, settings: type[ServedT], address: str, certificate: str, key: str
) -> ServedT:
    """The settings of a table in which other machines reach an address by TLS only."""
    before = len(file.faults)
    values = file.read(settings, table)
    if len(file.faults) > before:
        return settings()
    at, has_key = values.get(address), values.get(key) is not None
    if has_key != (values.get(certificate) is not None):
        file.note((table,), f"{table}: expected {certificate} and {key}, or neither of them")
    elif at is not None and _is_open(at) and not has_key:
        needed = f"an address of this machine alone (127.0.0.1), or {certificate} and {key} beside it"
        message = f"{table}.{address}: expected {needed}: tokens go over it"
        file.note((table, address), message, of_value=True)
    return settings(**values)

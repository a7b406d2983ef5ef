"""Fetch: a guarded web client, which no stranger's address or redirect can direct to internal places.

A name is resolved once, every address is checked, and the connection goes to a checked address; the same
holds at each redirect. Addresses outside the public internet (this machine, its networks, the link, a
provider's metadata) are refused unless the settings grant them (`fetch_allow`). Proxies of the environment
are ignored, as the places behind them could not be checked.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
import socket
import ssl
import zlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC
from functools import cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

from narval.core.errors import ActionError
from narval.core.trust.covering import is_covered

MOST_BYTES = 10 * 1024 * 1024
MOST_SECONDS = 60.0
"""The most seconds for a whole answer, including redirects, however steadily it arrives."""
SILENT_SECONDS = 20.0
MAX_REDIRECTS = 5
NOT_GRANTED = "not-granted"

_PUBLIC_V6, _NAT64 = IPv6Network("2000::/3"), IPv6Network("64:ff9b::/96")
_NOT_PUBLIC = [
    ip_network(network)
    for network in (
        "168.63.129.16/32",  # the services of Azure for the machine itself
        "192.0.0.0/24",  # protocols of the IETF, and the metadata of Oracle's cloud
        "192.88.99.0/24",  # relays of 6to4
        "2001::/23",  # protocols of the IETF
        "3fff::/20",  # documentation
    )
]
"""Networks outside the public internet that `ipaddress` counts as public, in some or all Python versions."""
_ENCODINGS = ("gzip", "x-gzip", "deflate")
_LETS_IN = frozenset({"authorization", "cookie", "proxy-authorization"})
"""The headers with credentials, which go to no other place, whoever sets them."""
_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\]]+\]|[^:\[\]]+):(?P<port>[0-9]{1,5})")
_NAME = re.compile(r"[\w-]{1,63}(\.[\w-]{1,63})*\.?")


class FetchError(ActionError):
    """An address cannot be fetched.

    `kind` is `unreachable` (no server, or no whole answer in time), `forbidden` (the place is internal),
    `not-granted` (a redirect leads elsewhere; final), `bad-address`, `bad-answer` or `too-large`. `was_sent`
    says that the request may have reached the server.
    """

    def __init__(self, message: str, kind: str, *, was_sent: bool = False) -> None:
        super().__init__(message, kind, final=kind == NOT_GRANTED)
        self.was_sent = was_sent


class Fetched(NamedTuple):
    """The answer of a server, whatever its status; `url` is its final address, without a password.

    The names of `headers` are in lower case; `body` is decompressed, and empty if there was none.
    """

    status: int
    reason: str
    url: str
    headers: Mapping[str, str]
    body: bytes

    def retry_after(self, now: float) -> float | None:
        """The seconds from `now` that its Retry-After asks for, as a number or a date; None without one."""
        from email.utils import parsedate_to_datetime

        text = self.headers.get("retry-after", "").strip()
        try:
            if text.isdecimal():
                return float(text)
            moment = parsedate_to_datetime(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return max(moment.timestamp() - now, 0.0)
        except (ValueError, OverflowError):
            return None


class Grant(NamedTuple):
    """An internal place that may be fetched: a host name or a network; 0 means any port."""

    place: str
    port: int

    @classmethod
    def of(cls, text: str) -> Grant:
        """Read `HOST`, `HOST:PORT`, `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]:PORT` or `NETWORK/BITS`.

        Raises ValueError with what was expected.
        """
        match = _HOST_AND_PORT.fullmatch(text)
        host = (match["host"] if match else text).strip("[]").lower()
        port = int(match["port"]) if match else 0
        try:
            return cls(str(ip_network(host)), port)
        except ValueError:
            if port > 65_535 or not _NAME.fullmatch(host) or re.fullmatch(r"[0-9.]+", host):
                raise ValueError(
                    'hosts, addresses or networks, such as "wiki.example.org", "127.0.0.1:8080", "10.0.0.0/8"'
                ) from None
            return cls(host.rstrip("."), port)

    def covers(self, host: str, address: IPv4Address | IPv6Address, port: int) -> bool:
        """True if a connection to this address and port, resolved from this host, is granted."""
        if self.port not in (0, port):
            return False
        return address in ip_network(self.place) if "/" in self.place else host == self.place


class KnownPlace(NamedTuple):
    """A place that the settings name: it is granted, and its headers go only to its scheme, host and port."""

    url: str
    headers: Mapping[str, str]

    def covers(self, url: str) -> bool:
        """True if a URL belongs to this place."""
        return _origin(url) == _origin(self.url)


class _Request(NamedTuple):
    """The request of one call of `fetched`, for all its redirects."""

    url: str
    method: str
    headers: Mapping[str, str]
    body: bytes | None
    grants: list[Grant]
    granted: tuple[str, ...] | None
    known: KnownPlace | None

    @property
    def follows(self) -> bool:
        """True if redirects are followed; a request that may change something is made only once."""
        return self.method in ("GET", "HEAD")

    def headers_for(self, url: str) -> dict[str, str]:
        """The headers for a URL of the chain: credentials go only to the place they are intended for."""
        sent = dict(self.headers)
        if _origin(url) != _origin(self.url):
            sent = {name: value for name, value in sent.items() if name.lower() not in _LETS_IN}
        if self.known is not None and self.known.covers(url):
            sent.update(self.known.headers)
        return sent


async def fetched(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    known: KnownPlace | None = None,
    allow: Iterable[str] = (),
    granted: tuple[str, ...] | None = None,
    most: int = MOST_BYTES,
    seconds: float = MOST_SECONDS,
    silent: float = SILENT_SECONDS,
    received: Callable[[bytes], None] | None = None,
    tls_ca: Path | None = None,
) -> Fetched:
    """Request a URL and follow redirects of GET and HEAD; `allow` are the grants of the settings. Redirects
    lead only to the same host and to the hosts in `granted`, which are needs as texts; None: to any.

    The answer has at most `most` bytes, decompressed, and takes at most `seconds` seconds, with at most
    `silent` seconds between bytes; `received` is called with each piece as it arrives. `tls_ca` is a file of
    certificates that may sign the server's; None: those of this machine. Raises FetchError.
    """
    loaded = _client_parts.cache_info().currsize
    httpx2, tls = _client_parts() if loaded else await asyncio.to_thread(_client_parts)
    if tls_ca is not None:
        tls = _tls_of(tls_ca)
    # No connection is kept: each was made, and its certificate checked, for one name of its address.
    limits = httpx2.Limits(max_keepalive_connections=0)
    client = httpx2.AsyncClient(verify=tls, timeout=silent, limits=limits, trust_env=False)
    try:
        async with asyncio.timeout(seconds), client:
            grants = [Grant.of(text) for text in allow]
            sent = {"User-Agent": "narval", **(headers or {}), "Accept-Encoding": "gzip"}
            request = _Request(url, method, sent, body, grants, granted, known)
            return await _followed(client, request, most, received)
    except TimeoutError:
        raise FetchError(f"no whole answer within {seconds:g} s", "unreachable", was_sent=True) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
        was_sent = isinstance(error, httpx2.TransportError) and not isinstance(
            error, httpx2.ConnectError | httpx2.ConnectTimeout
        )
        raise FetchError(str(error) or type(error).__name__, "unreachable", was_sent=was_sent) from None
    except zlib.error as error:
        message = f"the answer is badly compressed: {error}"
        raise FetchError(message, "bad-answer", was_sent=True) from None


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """True if an address is on the public internet; of IPv6 addresses, an embedded IPv4 address decides."""
    if any(address in network for network in _NOT_PUBLIC):
        return False
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and not address.is_reserved
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    inner = address.ipv4_mapped or address.sixtofour
    if inner:
        return is_public(inner)
    return address in _PUBLIC_V6 and address.is_global


def is_web(url: str) -> bool:
    """True for a URL of http or https that may be fetched, and shown as a link."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


@cache
def _client_parts() -> tuple[Any, Any]:
    """The library and its TLS context: the import takes 0.2 s, and the context reads all certificates."""
    httpx2 = importlib.import_module("httpx2")
    for name in ("httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.WARNING)  # they log whole URLs, some of which have a secret
    return httpx2, httpx2.create_ssl_context()


@cache
def _tls_of(tls_ca: Path) -> ssl.SSLContext:
    """The TLS context that trusts only the certificates of a file. Raises FetchError."""
    try:
        return ssl.create_default_context(cafile=tls_ca)
    except (OSError, ssl.SSLError) as error:
        raise FetchError(f"expected certificates in {tls_ca}: {error}", "unreachable") from None


async def _followed(
    client: Any, request: _Request, most: int, received: Callable[[bytes], None] | None
) -> Fetched:
    url = request.url
    for _ in range(MAX_REDIRECTS + 1):
        if not is_web(url):
            raise FetchError(
                f"expected an address of http or https, found {url[:200]!r}: nothing else is followed",
                "bad-address",
            )
        response = await _asked(client, url, request)
        # By hand, because httpx2 reads the whole body of a redirect before following it, however long it is.
        try:
            if not request.follows or not response.has_redirect_location:
                printable = _without_password(url)
                headers = {name.lower(): value for name, value in response.headers.items()}
                body = await _body(response, most, received)
                return Fetched(response.status_code, response.reason_phrase, printable, headers, body)
            url = _joined(url, response.headers["location"])
        finally:
            await response.aclose()
            client.cookies.clear()  # cookies of one host would go to another at the same address
    raise FetchError(f"redirected more than {MAX_REDIRECTS} times", "bad-answer", was_sent=True)


async def _asked(client: Any, url: str, fetch_request: _Request) -> Any:
    """The start of an answer, from the first address that accepts the connection."""
    granted = fetch_request.known is not None and fetch_request.known.covers(url)
    httpx2 = importlib.import_module("httpx2")
    asked = httpx2.URL(url)
    host, port = _host_and_port(asked)
    if fetch_request.granted is not None:
        _check_redirect(_host_and_port(httpx2.URL(fetch_request.url)), (host, port), fetch_request.granted)
    failed: Exception | None = None
    for address in await _checked(host.lower().rstrip("."), port, fetch_request.grants, granted=granted):
        # TLS requests and checks the name; the connection goes to the address.
        request = client.build_request(
            fetch_request.method,
            asked.copy_with(host=str(address)),
            content=fetch_request.body,
            headers={**fetch_request.headers_for(url), "Host": asked.netloc.decode("ascii")},
            extensions={"sni_hostname": host},
        )
        try:
            return await client.send(request, stream=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            failed = error
    raise failed or FetchError(f"{host} has no address", "unreachable")


def _host_and_port(url: Any) -> tuple[str, int]:
    return url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80)


def _check_redirect(first: tuple[str, int], place: tuple[str, int], granted: tuple[str, ...]) -> None:
    """Refuse a redirect to a place that is neither the first one, nor https on its host, nor granted.

    Raises FetchError.
    """
    host, port = place
    if place in (first, (first[0], 443)) or is_covered(f"host {host.lower()}:{port}", granted):
        return
    why = f"{first[0]} redirects to {host}:{port}, which is not granted; write that address in its place"
    raise FetchError(why, NOT_GRANTED, was_sent=True)


async def _checked(
    host: str, port: int, grants: list[Grant], *, granted: bool
) -> list[IPv4Address | IPv6Address]:
    """The addresses of a host that may be connected to, at least one. Raises FetchError."""
    addresses = await _addresses(host.strip("[]"), port)
    open_ones = [
        address
        for address in addresses
        if granted or is_public(address) or any(grant.covers(host, address, port) for grant in grants)
    ]
    if not open_ones:
        where = ", ".join(map(str, addresses)) or "no address"
        raise FetchError(
            f"expected a place of the public internet, found {host}:{port} at {where}; to allow it, name it "
            f'in etc/narval.toml: fetch_allow = ["{host}:{port}"]',
            "forbidden",
        )
    return open_ones


async def _addresses(host: str, port: int) -> list[IPv4Address | IPv6Address]:
    """The addresses of a host; an address is not resolved. Raises FetchError."""
    try:
        return [ip_address(host)]
    except ValueError:
        pass
    try:
        rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise FetchError(f"{host} cannot be found: {error}", "unreachable") from None
    return list(dict.fromkeys(ip_address(row[4][0]) for row in rows))


async def _body(response: Any, most: int, received: Callable[[bytes], None] | None) -> bytes:
    """The body, read only up to the limit: a kilobyte may decompress to a megabyte."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", *_ENCODINGS):
        raise FetchError(f"the answer is encoded as {encoding!r}, unasked", "bad-answer", was_sent=True)
    unfold = zlib.decompressobj(wbits=47) if encoding in _ENCODINGS else None
    body = bytearray()
    async for chunk in response.aiter_raw():
        piece = unfold.decompress(chunk, most + 1 - len(body)) if unfold else chunk
        body += piece
        if len(body) > most:
            raise FetchError(f"expected at most {most:,} bytes, got more", "too-large", was_sent=True)
        if received is not None:
            received(piece)
    return bytes(body)


def within(base: str, path: str) -> str:
    """A URL within a known place: `path` unchanged if it is a whole URL, else appended to the place's URL.

    Raises FetchError for a path that leads out of it.
    """
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", path):
        return path
    plain = re.split(r"[?#]", path, maxsplit=1)[0]
    if ".." in re.split(r"[/\\]", unquote(plain)):
        raise FetchError(f"expected a path below {base}, found {path[:200]!r}", "bad-address")
    return f"{base.rstrip('/')}/{path.lstrip('/')}" if path else base


def _origin(url: str) -> tuple[str, str, int]:
    """The scheme, host and port of a URL."""
    parts = urlsplit(url)
    usual = 443 if parts.scheme == "https" else 80
    return parts.scheme, (parts.hostname or "").rstrip("."), parts.port or usual


def _joined(base: str, link: str) -> str:
    try:
        return urljoin(base, link)
    except ValueError:
        return link


def _without_password(url: str) -> str:
    """The URL in a form that may be shown."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

"""The place where the pages of a program are reached, which decides its own Host and Origin (M64, M69)."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

from narval.core.errors import OperatorError

_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|\[::1\]|(?:[a-z0-9-]{1,63}\.)*localhost)(?::([0-9]{1,5}))?")
_PROXY = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(?::[0-9]{1,5})?")


class WebPlace(msgspec.Struct, frozen=True):
    """A place: a port of this machine, or a Unix socket (None), which a proxy may serve as `behind`.

    `behind` is the name, as in Host, of a proxy that speaks TLS. Without it only names for this machine are
    accepted: its loopback addresses, `localhost` and names below it. A Unix socket accepts any port, as
    people forward their own ports to it.
    """

    port: int | None = None
    behind: str = ""

    @classmethod
    def behind_proxy(cls, address: str) -> WebPlace:
        """The place for an address such as https://narval.example.org. Raises OperatorError for another."""
        parts = urlsplit(address)
        name = parts.netloc.lower()
        if parts.scheme != "https" or parts.path.strip("/") or parts.query or not _PROXY.fullmatch(name):
            expectation = "expected an address such as https://narval.example.org"
            raise OperatorError(f"{expectation} for --behind, without a path, got {address!r:.80}")
        return cls(behind=name.removesuffix(":443"))

    @property
    def address(self) -> str:
        """The address for a browser, without a slash at the end; "" if it is not known."""
        if self.behind:
            return f"https://{self.behind}"
        return f"http://127.0.0.1:{self.port}" if self.port else ""

    @property
    def scheme(self) -> str:
        """The scheme of the address."""
        return "https" if self.behind else "http"

    @property
    def cookie(self) -> str:
        """The name of the session's cookie: one for each port, as cookies are shared between ports."""
        return "__Host-narval" if self.behind else f"narval-{self.port}" if self.port else "narval"

    def login(self, token: str) -> str:
        """The login link of a token."""
        return login_address(self.address, token)

    def accepts(self, host: str) -> bool:
        """True if a Host is ours, with our port."""
        host = host.lower()
        if self.behind:
            return host in (self.behind, f"{self.behind}:443")
        match = _LOOPBACK.fullmatch(host)
        if match is None:
            return False
        return self.port is None or (match[1] or "80") == str(self.port)

    def origin(self, host: str) -> str:
        """The Origin of our own pages, as reached under a Host of ours."""
        return self.address if self.behind else f"http://{host.lower()}"


def login_address(address: str, token: str) -> str:
    """The login link of a token for pages at an address; only its path if the address is unknown."""
    return f"{address}/login?token={token}"

"""The place where the pages of a program are reached: its own Host and Origin, and the address in the home.

The program that serves the pages of a home holds a lock on the file with the address: so a home has only one
such program, and an address is valid only while the file is locked. Login links are made with it. The next
program listens there again if it can, so that open pages in a browser keep working.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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


# --- the address in the home --------------------------------------------------------------------------------


_NAME = "address"


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, str]]:
    """Hold the lock as the program that serves the pages of a home: the file to write the address to, and the
    address of the previous program; "" if there was none.

    Raises OperatorError if another one serves them.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            there = os.pread(handle, 4096, 0).decode(errors="replace") or "an address of its own"
            raise OperatorError(
                f"narval web serves this home already, at {there}; log in there: narval web login"
            ) from None
        former = os.pread(handle, 4096, 0).decode(errors="replace")
        yield handle, former
    finally:
        os.close(handle)


def note(handle: int, address: str) -> None:
    """Write the address of the pages."""
    os.ftruncate(handle, 0)
    os.pwrite(handle, address.encode(), 0)


def port_of(address: str) -> int | None:
    """The port of an address of this machine; None for any other."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    return int(port) if host == "127.0.0.1" and port.isascii() and port.isdecimal() else None


def known(folder: Path) -> str:
    """The address at which the pages of a home are served. Raises OperatorError if they are not served."""
    nobody = OperatorError("narval web does not run for this home; start it: narval web")
    try:
        handle = os.open(folder / _NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise nobody from None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(handle, 4096, 0).decode(errors="replace")
    else:
        raise nobody
    finally:
        os.close(handle)

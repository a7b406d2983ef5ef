"""The URL of a store: of a server, or of the SQLite file that it names."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from narval.core.errors import StoreError

_OF_SERVERS = re.compile(r"(?:postgres|postgresql)(?:\+\w+)?://")
_HIDDEN = re.compile(r"(://[^:/@?#]*):[^/?#]*@|([?&](?:ssl)?password=)[^&#]*")


def is_of_server(url: str) -> bool:
    """True for the URL of a server, with any driver."""
    return _OF_SERVERS.match(url) is not None


def of_libpq(url: str) -> str:
    """The URL of a server as libpq reads it: without a driver."""
    return _OF_SERVERS.sub("postgresql://", url, count=1)


def shown(url: str) -> str:
    """A URL without its password."""
    return _HIDDEN.sub(lambda match: f"{match[1]}:***@" if match[1] else f"{match[2]}***", url)


def file_of(url: str) -> Path:
    """The file that a URL of SQLite names. Raises StoreError."""
    if not re.match(r"sqlite(?:\+\w+)?://", url):
        raise StoreError(
            "expected a path or a database URL, such as sqlite:////home/me/store.db or "
            f"postgresql://me@host/narval, got: {shown(url)}"
        )
    path = urlsplit(url).path.removeprefix("/")
    if not path or path == ":memory:":
        raise StoreError(f"expected the URL of a file, such as sqlite:////home/me/store.db, got: {url}")
    return Path(path).absolute()

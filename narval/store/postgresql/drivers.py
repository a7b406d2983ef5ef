"""The driver of a store by its path or URL. A server's is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from narval.core.errors import StoreError
from narval.store.postgresql import urls
from narval.store.sqlite import File
from narval.store.store import Durability
from narval.system.extras import install_command

if TYPE_CHECKING:
    from narval.store.postgresql.leases import Published
    from narval.store.postgresql.server import Server


def driver_of(where: Path | str, durability: Durability, patience: float) -> File | Server:
    """The driver for the file of a SQLite store, or for the URL of any other. Raises StoreError."""
    if isinstance(where, Path) or "://" not in where:
        return File(Path(where).absolute(), durability, patience)
    if not urls.is_of_server(where):
        return File(urls.file_of(where), durability, patience)
    return _server_at(where)


@contextmanager
def published_at(url: str) -> Iterator[Published]:
    """The collections of the store at a URL, for a program other than a daemon. Raises StoreError."""
    server = _server_at(url)
    from narval.store.postgresql.published_table import PublishedTable  # here: it imports psycopg

    try:
        yield PublishedTable(server)
    finally:
        server.close()


def _server_at(where: str) -> Server:
    """The driver for the URL of a server. Raises StoreError if its library is not installed."""
    try:
        from narval.store.postgresql.server import Server
    except ImportError as error:
        raise StoreError(
            f"expected the library psycopg for the store at {urls.shown(where)}, found none ({error}); "
            f"install it with: {install_command('postgres')}"
        ) from error
    return Server(where)

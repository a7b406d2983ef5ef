"""A local cache of fetched pages: a page is fetched again only if it has changed.

It is an SQLite file in `var/` of the home. Deleting it costs only time.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

FILE = "dataflows.sqlite"
"""The name of the file in `var/`."""

MOST_PAGES = 2_000
"""The most pages kept; the oldest are dropped first."""

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS pages (url TEXT PRIMARY KEY, at REAL NOT NULL, data BLOB NOT NULL) WITHOUT ROWID;
"""


class KeptPage(msgspec.Struct, array_like=True):
    """A fetched page, with the server's validators for conditional requests."""

    etag: str
    modified: str
    status: int
    type: str
    content: str


def pages_file(home: Path) -> Path:
    """The file of a home."""
    return home / "var" / FILE


class PageCache:
    """The pages in a file, or in memory without one."""

    def __init__(self, path: Path | None) -> None:
        self._database = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
        if path is not None:
            path.chmod(0o600)
        self._database.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def page(self, url: str) -> KeptPage | None:
        """The cached page of a URL."""
        row = self._database.execute("SELECT data FROM pages WHERE url = ?", (url,)).fetchone()
        return None if row is None else msgspec.msgpack.decode(row[0], type=KeptPage)

    def keep(self, url: str, page: KeptPage, at: float) -> None:
        """Keep a page, and drop the oldest if there are too many."""
        with self._database as database:
            database.execute(
                "INSERT OR REPLACE INTO pages VALUES (?, ?, ?)", (url, at, msgspec.msgpack.encode(page))
            )
            (count,) = database.execute("SELECT count(*) FROM pages").fetchone()
            if count > MOST_PAGES:
                oldest = "DELETE FROM pages WHERE url IN (SELECT url FROM pages ORDER BY at LIMIT ?)"
                database.execute(oldest, (count - MOST_PAGES,))

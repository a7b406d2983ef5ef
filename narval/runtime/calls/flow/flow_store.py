"""The store of dataflows: what I/O operators have finished, pages that were fetched, what was seen before.

It is a file of SQLite beside the store of the home, and used by the loop of dataflows alone: a page that was
fetched is no business of a turn. What is in it saves work and messages done twice; a run's own record is the
journal's. Each thing is committed as it is done (T23, TA22, TA23).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from narval.engines.dataflow.network.batches import TupleBatch
from narval.runtime.calls.flow.performers.performing import FlowAnswer

FILE = "dataflows.sqlite"
"""The name of the file in `var/`."""

MOST_KEPT = 64 << 20
"""The most bytes of one result that are kept; one that is larger is asked for again after a crash."""

MOST_PAGES = 2_000
"""The pages that are kept to be asked for again only if they have changed; the oldest go first."""

_SCHEMA = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS results (
    session TEXT NOT NULL, key TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (session, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pages (url TEXT PRIMARY KEY, at REAL NOT NULL, data BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (
    name TEXT NOT NULL, key TEXT NOT NULL, first REAL NOT NULL, last REAL NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (name, key)
) WITHOUT ROWID;
"""


class KeptPage(msgspec.Struct, array_like=True):
    """A page as it was fetched, with what its server said to ask by whether it has changed."""

    etag: str
    modified: str
    status: int
    type: str
    content: str


class SeenItem(NamedTuple):
    """An item that `remember` has seen under a name: its key, when first and last, and its tuple as JSON."""

    key: str
    first: float
    last: float
    data: bytes


def encoded(answer: FlowAnswer) -> bytes:
    """An answer as it is recorded."""
    return msgspec.json.encode((*answer.batch, answer.port, answer.at))


class FlowStore:
    """The store of dataflows in a file; in memory without one."""

    def __init__(self, path: Path | None) -> None:
        self._database = sqlite3.connect(":memory:" if path is None else path, check_same_thread=False)
        if path is not None:
            path.chmod(0o600)
        self._database.executescript(_SCHEMA)
        self._is_together = False

    @contextmanager
    def together(self) -> Iterator[None]:
        """Commit what is done meanwhile as one."""
        self._is_together = True
        try:
            with self._database:
                yield
        finally:
            self._is_together = False

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    # --- results (T23) --------------------------------------------------------------------------------

    def result(self, session: str, key: str) -> list[FlowAnswer] | None:
        """The answers that were recorded under a key of a session; None if there are none."""
        row = self._one("SELECT data FROM results WHERE session = ? AND key = ?", session, key)
        if row is None:
            return None
        found = msgspec.json.decode(
            row[0], type=list[tuple[tuple[str, ...], list[list[object]], str, str, int]]
        )
        return [
            FlowAnswer(TupleBatch(schema, [tuple(one) for one in rows], relation), port, at)
            for schema, rows, relation, port, at in found
        ]

    def record(self, session: str, key: str, answers: Iterable[bytes] = ()) -> None:
        """Record what came of a piece of work: its answers, each as it is `encoded`."""
        data = b"[%b]" % b",".join(answers)
        self._do("INSERT OR REPLACE INTO results VALUES (?, ?, ?)", session, key, data)

    def forget_sessions(self, are_over: Callable[[str], bool]) -> None:
        """Forget the results of sessions that are over."""
        known = [row[0] for row in self._database.execute("SELECT DISTINCT session FROM results")]
        for session in filter(are_over, known):
            self._do("DELETE FROM results WHERE session = ?", session)

    # --- pages ----------------------------------------------------------------------------------------

    def page(self, url: str) -> KeptPage | None:
        """A page that was fetched."""
        row = self._one("SELECT data FROM pages WHERE url = ?", url)
        return None if row is None else msgspec.msgpack.decode(row[0], type=KeptPage)

    def keep_page(self, url: str, page: KeptPage, at: float) -> None:
        """Keep a page, and let go of the oldest if there are too many."""
        self._do("INSERT OR REPLACE INTO pages VALUES (?, ?, ?)", url, at, msgspec.msgpack.encode(page))
        (count,) = self._one("SELECT count(*) FROM pages") or (0,)
        if count > MOST_PAGES:
            oldest = "DELETE FROM pages WHERE url IN (SELECT url FROM pages ORDER BY at LIMIT ?)"
            self._do(oldest, count - MOST_PAGES)

    # --- what was seen --------------------------------------------------------------------------------

    def seen(self, name: str, key: str) -> SeenItem | None:
        """An item that was seen under a name."""
        row = self._one("SELECT key, first, last, data FROM seen WHERE name = ? AND key = ?", name, key)
        return None if row is None else SeenItem(*row)

    def see(self, name: str, key: str, at: float, data: bytes) -> None:
        """Remember an item: as it is now, since when it was first seen."""
        text = (
            "INSERT INTO seen VALUES (?, ?, ?, ?, ?) ON CONFLICT (name, key) DO UPDATE SET last = ?, data = ?"
        )
        self._do(text, name, key, at, at, data, at, data)

    def all_seen(self, name: str) -> list[SeenItem]:
        """All that was seen under a name, by key."""
        rows = self._database.execute(
            "SELECT key, first, last, data FROM seen WHERE name = ? ORDER BY key", (name,)
        )
        return [SeenItem(*row) for row in rows]

    def forget_seen(self, name: str, key: str | None = None) -> int:
        """Forget an item of a name, or all of them; how many there were."""
        if key is None:
            return self._do("DELETE FROM seen WHERE name = ?", name)
        return self._do("DELETE FROM seen WHERE name = ? AND key = ?", name, key)

    # --- inside ---------------------------------------------------------------------------------------

    def _one(self, text: str, *values: object) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._database.execute(text, values).fetchone()
        return row

    def _do(self, text: str, *values: object) -> int:
        if self._is_together:
            return self._database.execute(text, values).rowcount
        with self._database:
            return self._database.execute(text, values).rowcount

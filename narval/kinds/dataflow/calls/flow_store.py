"""The store of dataflows: what I/O operators have finished, pages that were fetched, what was seen before.

It is a file of SQLite beside the store of the home, and used by the loop of dataflows alone: a page that was
fetched is no business of a turn. What is in it saves work and messages done twice; a run's own record is the
journal's. Each thing is committed as it is done (T23, TA22, TA23).

What a session sees stays its own, a *sight*, until it ends well: only then is it `seen`, all of it at once.
The messages of a session that did not end well are kept as told, by the dataflow and its values: the next
session, to which the same things are new, does not send them again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from narval.kinds.dataflow.calls.performers.performing import FlowAnswer
from narval.kinds.dataflow.engine.network.batches import TupleBatch

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
CREATE TABLE IF NOT EXISTS sights (
    session TEXT NOT NULL, frame TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL,
    first REAL NOT NULL, last REAL NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (session, name, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sights_items ON sights (name, key);
CREATE TABLE IF NOT EXISTS told (dataflow TEXT NOT NULL, message TEXT NOT NULL, session TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS told_messages ON told (dataflow, message);
CREATE INDEX IF NOT EXISTS told_sessions ON told (session);
"""

_SESSIONS = """
WITH RECURSIVE each (session) AS (
    SELECT min(session) FROM results
    UNION ALL SELECT (SELECT min(session) FROM results WHERE session > each.session) FROM each
    WHERE each.session IS NOT NULL
) SELECT session FROM each WHERE session IS NOT NULL
"""
"""The sessions that have results, found without reading all of them. A sight and a told message have one."""

NOBODY = ""
"""The session of messages whose own session did not end well."""


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
        self._under_way: set[str] = set()

    @contextmanager
    def under_way(self, session: str) -> Iterator[None]:
        """Take note that a session is under way: what it sees is its own, and nothing of it is forgotten."""
        self._under_way.add(session)
        try:
            yield
        finally:
            self._under_way.discard(session)

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
        """Forget the results and sights of sessions that are over; what they told stays told."""
        sessions = {row[0] for row in self._database.execute(_SESSIONS)}
        for session in filter(are_over, sessions - self._under_way):
            with self.together():
                self._do("DELETE FROM results WHERE session = ?", session)
                self._do("DELETE FROM sights WHERE session = ?", session)
                self._do("UPDATE told SET session = ? WHERE session = ?", NOBODY, session)

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

    def seen(self, session: str, name: str, key: str) -> SeenItem | None:
        """An item under a name as a session has seen it, else as it was seen before."""
        text = "SELECT key, first, last, data FROM sights WHERE session = ? AND name = ? AND key = ?"
        row = self._one(text, session, name, key) or self._one(
            "SELECT key, first, last, data FROM seen WHERE name = ? AND key = ?", name, key
        )
        return None if row is None else SeenItem(*row)

    def is_anothers(self, session: str, name: str, key: str) -> bool:
        """Test whether another session that is under way has seen an item, and is to tell of it."""
        text = "SELECT session FROM sights WHERE name = ? AND key = ?"
        sessions = {row[0] for row in self._database.execute(text, (name, key))}
        return not sessions.isdisjoint(self._under_way - {session})

    def see(self, session: str, frame: str, name: str, key: str, at: float, data: bytes) -> None:
        """Take note of an item that a frame of a session sees: as it is now, and when it was first seen."""
        text = (
            "INSERT INTO sights VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (session, name, key) DO UPDATE SET last = ?, data = ?"
        )
        self._do(text, session, frame, name, key, at, at, data, at, data)

    def remember(self, session: str, dataflow: str, void: Iterable[str]) -> None:
        """Let all that a session has seen be seen, but for what its void frames saw: it ended well.

        What earlier sessions of the dataflow told before they failed need not be known any more.
        """
        with self.together():
            for frame in void:
                self._do("DELETE FROM sights WHERE session = ? AND frame = ?", session, frame)
            text = (
                "INSERT INTO seen SELECT name, key, first, last, data FROM sights WHERE session = ?"
                " ON CONFLICT (name, key) DO UPDATE SET last = excluded.last, data = excluded.data"
            )
            self._do(text, session)
            self._do("DELETE FROM sights WHERE session = ?", session)
            text = "DELETE FROM told WHERE dataflow = ? AND session IN (?, ?)"
            self._do(text, dataflow, session, NOBODY)

    def was_told(self, dataflow: str, message: str) -> bool:
        """Test whether a session of a dataflow that did not end well has sent a message."""
        text = "SELECT 1 FROM told WHERE dataflow = ? AND message = ? AND session = ?"
        return self._one(text, dataflow, message, NOBODY) is not None

    def tell(self, session: str, dataflow: str, message: str) -> None:
        """Take note that a session has told a message, or has one for its own that was told before."""
        text = (
            "UPDATE told SET session = ? WHERE rowid ="
            " (SELECT rowid FROM told WHERE dataflow = ? AND message = ? AND session = ? LIMIT 1)"
        )
        if not self._do(text, session, dataflow, message, NOBODY):
            self._do("INSERT INTO told VALUES (?, ?, ?)", dataflow, message, session)

    def forget_seen(self, name: str, key: str | None = None) -> int:
        """Forget an item of a name, or all of them; how many there were."""
        chosen, values = ("name = ?", [name]) if key is None else ("name = ? AND key = ?", [name, key])
        with self.together():
            self._do(f"DELETE FROM sights WHERE {chosen}", *values)  # noqa: S608
            return self._do(f"DELETE FROM seen WHERE {chosen}", *values)  # noqa: S608

    # --- inside ---------------------------------------------------------------------------------------

    def _one(self, text: str, *values: object) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._database.execute(text, values).fetchone()
        return row

    def _do(self, text: str, *values: object) -> int:
        if self._is_together:
            return self._database.execute(text, values).rowcount
        with self._database:
            return self._database.execute(text, values).rowcount


# --- for people, daemon or not (T49) --------------------------------------------------------------------


def seen_file(home: Path) -> Path:
    """The file of a home in which it is; there may be none yet."""
    return home / "var" / FILE


def names_seen(path: Path) -> list[tuple[str, int]]:
    """The names under which something was seen, and how much; the file is not altered."""
    rows = _rows(path, "SELECT name, count(*) FROM seen GROUP BY name ORDER BY name")
    return [(name, count) for name, count in rows]


def items_seen(path: Path, name: str, key: str | None = None, most: int = -1) -> list[SeenItem]:
    """The items seen under a name, or that of a key: the latest first, so many at most; -1 is all."""
    chosen = "name = ?" if key is None else "name = ? AND key = ?"
    text = f"SELECT key, first, last, data FROM seen WHERE {chosen} ORDER BY last DESC, key LIMIT ?"  # noqa: S608
    given = (name, most) if key is None else (name, key, most)
    return [SeenItem(*row) for row in _rows(path, text, *given)]


def forget(path: Path, name: str, key: str | None = None) -> int:
    """Forget an item of a name, or all of them; how many there were."""
    if not path.exists():
        return 0
    with closing(FlowStore(path)) as store:
        return store.forget_seen(name, key)


def _rows(path: Path, text: str, *given: object) -> list[Any]:
    if not path.exists():
        return []
    log, index = path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")
    is_logged = log.exists() and log.stat().st_size > 0 and index.exists()
    # Only so does SQLite leave the files beside it as they are.
    how = "readonly_shm=1" if is_logged else "immutable=1"
    address = f"file:{quote(str(path.absolute()))}?mode=ro&{how}"
    with closing(sqlite3.connect(address, uri=True)) as database:
        return database.execute(text, given).fetchall()

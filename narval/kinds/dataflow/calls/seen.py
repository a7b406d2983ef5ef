"""Items that dataflows have seen: people look at them and have them forgotten, daemon or not (T49)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from narval.kinds.dataflow.calls.flow_store import FILE, FlowStore, SeenItem


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

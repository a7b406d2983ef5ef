"""Rows copied from a store that is looked at to another, table by table, whatever databases they are in."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from narval.runtime.store import statements
from narval.runtime.store.batch import STORE
from narval.runtime.store.look import Look
from narval.runtime.store.sqlite import File, sync
from narval.runtime.store.statements import KEPT_OF_AGENTS

COPIED = ("texts", *KEPT_OF_AGENTS)
"""The tables that are copied, what others name before them."""

AT_ONCE = 2_000
"""So many rows are read and written at once."""

PATIENCE = 5.0
"""Seconds to wait for another program that holds a file locked."""

_NUMBERS = ("agent", "sender")
"""The columns that have numbers of agents."""

Told = Callable[[int], None]
"""Called with the number of rows so far, again and again."""


class Copying:
    """A copy of all rows of a store, or of those of some agents, under the numbers that they have there.

    `only` are the numbers of these agents as they are in the source, `numbers` what becomes of those that
    change; `told` hears how many rows have been copied.
    """

    def __init__(
        self, source: Look, told: Told, only: Collection[int] | None = None, numbers: Mapping[int, int] = {}
    ) -> None:
        self.rows = 0
        self._source, self._told, self._only, self._numbers = source, told, only, numbers

    def into(self, target: Any, mark: str, tables: Collection[str] = COPIED) -> None:
        """Copy by a connection, whose sign for a parameter is `mark`."""
        cursor = target.cursor()
        for table in tables:
            names = _columns(table)
            named = ", ".join(f'"{name}"' for name in names)
            marks = ", ".join([mark] * len(names))
            known = " ON CONFLICT DO NOTHING" if table == "texts" else ""
            insert = f"INSERT INTO {table} ({named}) VALUES ({marks}){known}"  # noqa: S608
            for rows in self._read(table, named):
                cursor.executemany(insert, self._fitted(rows, table, names))
                self.rows += len(rows)
                self._told(self.rows)

    def _read(self, table: str, columns: str) -> Iterator[list[Any]]:
        query = f"SELECT {columns} FROM {table}{self._where(table)}"  # noqa: S608
        if table in _in_order():
            query += " ORDER BY line"
        driver, connection = self._source.driver, self._source.connection
        try:
            named = () if isinstance(driver, File) else ("copied",)  # a server sends as much as is fetched
            with closing(connection.cursor(*named)) as found:
                found.execute(query)
                while rows := found.fetchmany(AT_ONCE):
                    yield rows
        except driver.errors as error:
            raise driver.trouble(error) from error

    def _where(self, table: str) -> str:
        if self._only is None:
            return ""
        of_these = f"agent IN ({', '.join(map(str, sorted(self._only)))})"
        if table != "texts":
            return f" WHERE {of_these}"
        named = f"SELECT text FROM elements WHERE text IS NOT NULL AND {of_these}"  # noqa: S608
        current = f"SELECT text FROM definitions WHERE {of_these}"  # noqa: S608
        return f" WHERE digest IN ({named} UNION {current})"

    def _fitted(self, rows: list[Any], table: str, names: tuple[str, ...]) -> list[Any]:
        """Rows with the numbers that agents have from now on, and truth as a server wants it."""
        kinds = _tables()[table]
        numbers = [place for place, name in enumerate(names) if name in _NUMBERS and self._numbers]
        flags = [place for place, name in enumerate(names) if kinds[name] == "BOOLEAN"]
        if not numbers and not flags:
            return rows
        fitted = []
        for row in rows:
            values = list(row)
            for place in numbers:
                values[place] = self._numbers.get(values[place], values[place])
            for place in flags:
                values[place] = bool(values[place])
            fitted.append(values)
        return fitted


def write_store(path: Path, copying: Copying) -> None:
    """Make a file with a store that has what is copied, on the disk when this returns."""
    file = File(path, "crash", PATIENCE)
    file.ensure()
    with closing(file.connect()) as target:
        target.execute("PRAGMA journal_mode=OFF")  # a file that is not whole is never used
        target.execute("PRAGMA synchronous=OFF")
        target.execute("BEGIN")
        for table in ("agents", "meta"):
            target.execute(f"DELETE FROM {table}")  # noqa: S608
        copying.into(target, "?")
        target.execute(file.statements["put meta"], (STORE, "clean", "1"))
        target.execute("COMMIT")
    sync(path)


def _columns(table: str) -> tuple[str, ...]:
    """The columns of a table but the number of a line, which every database gives itself."""
    return tuple(name for name in _tables()[table] if name != "line")


def _in_order() -> list[str]:
    """The tables whose rows stand in the order of writing."""
    return [table for table, names in _tables().items() if "line" in names]


@cache
def _tables() -> Mapping[str, Mapping[str, str]]:
    """The columns of the tables, each with the name of its type in SQLite."""
    with closing(sqlite3.connect(":memory:")) as made:
        made.executescript(statements.of_sqlite()["schema"])
        found = {table: made.execute(f"PRAGMA table_info({table})").fetchall() for table in COPIED}
    return {table: {name: kind for _, name, kind, *_ in rows} for table, rows in found.items()}

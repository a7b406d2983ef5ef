"""Operators on databases: query, query2, importrelation, exportrelation, exportrelation2 (TA20, TA21).

A query has a read-only connection; values are bound, never put into its text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from narval.files.outside.sources import FlowSource
from narval.kinds.dataflow.calls.performers.performing import FlowAnswer, in_batches
from narval.kinds.dataflow.calls.performers.sources import source_of
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.engine.network.batches import (
    FlowError,
    Relation,
    Row,
    Schema,
    TupleBatch,
    picker,
    placed_rows,
)
from narval.kinds.dataflow.engine.network.requests import OperatorRequest

BUSY = 30.0
"""The most seconds to wait for a database that another program is writing to."""


class Databases:
    """An operator on a database of the settings, by its name."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._tools = tools
        self._do = _OPERATORS[request.call.operator.name]
        arguments = request.arguments
        name = str(arguments["source"] if "source" in arguments else arguments["dest"])
        self._source = source = source_of(tools.sources, name)
        if source.kind != "sqlite":
            raise FlowError("bad-source", f"expected a database, found {name} of kind {source.kind}")
        self._path = source.file(tools.home)

    async def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Do what a request asks."""
        source, path, name = self._source, self._path, self._source.name
        if request.call.operator.effect:
            await self._tools.note_write(path)
        else:
            self._tools.note_read(path)
        try:
            answers = await self._tools.code.in_thread(partial(self._do, source, path, request))
            while some := await self._tools.code.in_thread(lambda: next(answers, None)):
                yield FlowAnswer(some)
        except sqlite3.Error as error:
            raise FlowError("database", f"{name}: {error}", final=not _may_pass(error)) from None


def _may_pass(error: sqlite3.Error) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def _query(source: FlowSource, path: Path, request: OperatorRequest) -> Iterator[TupleBatch]:
    text, bound = str(request.arguments["text"]), _bound(request)
    with closing(_reading(path)) as database:
        cursor = database.execute(text, bound)
        if cursor.description is None:
            raise FlowError("wrong-query", f"expected a query that gives rows, found {text[:80]!r}")
        schema = tuple(column[0] for column in cursor.description)
        yield from _batches(schema, cursor)


def _statement(source: FlowSource, path: Path, request: OperatorRequest) -> Iterator[TupleBatch]:
    with closing(_writing(source, path)) as database, database:
        database.execute(str(request.arguments["text"]), _bound(request))
    return iter(())


def _import(source: FlowSource, path: Path, request: OperatorRequest) -> Iterator[TupleBatch]:
    """Read a table. A missing table that may be exported later has no tuples."""
    name = str(request.arguments["name"])
    table = _quoted(name)
    if source.write and not path.exists():
        return
    with closing(_reading(path)) as database:
        if source.write and not _columns(database, table):
            return
        cursor = database.execute(f"SELECT * FROM {table}")  # noqa: S608
        schema = tuple(column[0] for column in cursor.description)
        yield from _batches(schema, cursor)


def _export(source: FlowSource, path: Path, request: OperatorRequest) -> Iterator[TupleBatch]:
    """Replace a table atomically."""
    relation = request.arguments["in"]
    assert isinstance(relation, Relation), request
    table = _quoted(str(request.arguments["name"]))
    with closing(_writing(source, path)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        database.execute(f"DROP TABLE IF EXISTS {table}")
        _create(database, table, relation.schema or request.call.columns or ("value",))
        for batch in relation.batches():
            _insert(database, table, batch.schema, batch.rows)
    return iter(())


def _append(source: FlowSource, path: Path, request: OperatorRequest) -> Iterator[TupleBatch]:
    """Add tuples; one with a known key replaces the old one. Without tuples, the table is still made."""
    schema, rows = request.call.columns, list[Row]()
    if request.batch is not None:
        schema, rows, _ = request.batch
    if not schema:
        return iter(())
    table = _quoted(str(request.arguments["name"]))
    parsed = request.call.parsed.get("key")
    words = parsed or filter(None, str(request.arguments.get("key", "")).split(","))
    key = tuple(name.strip() for name in words)
    if lacking := [name for name in key if name not in schema]:
        schema, rows = placed_rows(TupleBatch(schema, rows), (*schema, *lacking))
    with closing(_writing(source, path)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        _create(database, table, schema, key)
        _widen(database, table, schema)
        if key and rows:
            rows = _replaced(database, table, key, schema, rows)
        _insert(database, table, schema, rows)
    return iter(())


def _replaced(
    database: sqlite3.Connection, table: str, key: Sequence[str], schema: Schema, rows: list[Row]
) -> list[Row]:
    """Delete stored tuples with the keys of new ones; return the last new tuple of each key."""
    pick = picker(schema, key)
    last = {pick(row): row for row in rows}
    where = " AND ".join(f"{_quoted(name)} IS ?" for name in key)
    database.executemany(f"DELETE FROM {table} WHERE {where}", last)  # noqa: S608
    return list(last.values())


_OPERATORS: dict[str, Callable[[FlowSource, Path, OperatorRequest], Iterator[TupleBatch]]] = {
    "query": _query,
    "query2": _statement,
    "importrelation": _import,
    "exportrelation": _export,
    "exportrelation2": _append,
}


# --- SQLite ---------------------------------------------------------------------------------------------


def _reading(path: Path) -> sqlite3.Connection:
    if not path.exists():
        raise FlowError("bad-source", f"there is no database {path}")
    address = f"{path.absolute().as_uri()}?mode=ro"
    database = sqlite3.connect(address, uri=True, timeout=BUSY, check_same_thread=False)
    database.execute("PRAGMA query_only = ON")
    database.set_authorizer(_within_its_file)
    return database


def _writing(source: FlowSource, path: Path) -> sqlite3.Connection:
    if not source.write:
        message = f"[sources.{source.name}] may only be read; write = true there allows more"
        raise FlowError("forbidden", message)
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
    database.set_authorizer(_within_its_file)
    return database


def _within_its_file(action: int, file: str | None, *others: str | None) -> int:
    """Deny ATTACH and VACUUM INTO, which name another file; plain VACUUM names none."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH and file != "" else sqlite3.SQLITE_OK


def _bound(request: OperatorRequest) -> dict[str, Any]:
    """The attributes of the current tuple, by name."""
    if request.batch is None:
        return {}
    schema, rows, _ = request.batch
    return dict(zip(schema, rows[0], strict=True))


def _batches(schema: Schema, rows: Iterable[Row]) -> Iterator[TupleBatch]:
    for some in in_batches(rows):
        yield TupleBatch(schema, [tuple(map(_plain, row)) for row in some])


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _quoted(name: str) -> str:
    """A name quoted for SQL. Raises FlowError for an invalid name."""
    if not name.strip() or "\0" in name:
        raise FlowError("wrong-text", f"expected the name of a table or column, found {name!r:.80}")
    return '"' + name.replace('"', '""') + '"'


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table, folded; empty if there is no table."""
    return {_folded(str(row[1])) for row in database.execute(f"PRAGMA table_info({table})")}


def _folded(name: str) -> str:
    """A name folded as SQLite compares columns: `id` equals `ID`, but `ä` differs from `Ä`."""
    return name.encode().lower().decode()


def _widen(database: sqlite3.Connection, table: str, schema: Schema) -> None:
    """Add the columns that a table lacks; its present rows have no value there."""
    there = _columns(database, table)
    for name in schema:
        if _folded(name) not in there:
            database.execute(f"ALTER TABLE {table} ADD COLUMN {_quoted(name)}")


def _create(database: sqlite3.Connection, table: str, schema: Schema, key: Sequence[str] = ()) -> None:
    columns = ", ".join(map(_quoted, schema))
    unique = f", UNIQUE ({', '.join(map(_quoted, key))})" if key else ""
    database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns}{unique})")


def _insert(database: sqlite3.Connection, table: str, schema: Schema, rows: list[Row]) -> None:
    columns, places = ", ".join(map(_quoted, schema)), ", ".join("?" * len(schema))
    database.executemany(f"INSERT INTO {table} ({columns}) VALUES ({places})", rows)  # noqa: S608

"""Operators on databases: query, query2, importrelation, exportrelation, exportrelation2 (TA20, TA21).

A query has a connection that can only read; values are bound, never put into its text.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from narval.core.memory.labels import FILE
from narval.files.outside.sources import FlowSource
from narval.kinds.dataflow.calls.performers.performing import FlowAnswer, Give
from narval.kinds.dataflow.calls.performers.sources import source_of
from narval.kinds.dataflow.calls.performers.tools import FlowTools
from narval.kinds.dataflow.engine.network.batches import BATCH, FlowError, Relation, Row, Schema, TupleBatch
from narval.kinds.dataflow.engine.network.requests import OperatorRequest

BUSY = 30.0
"""Seconds to wait for a database that another program writes to."""


class Databases:
    """An operator on a database of the settings, by its name."""

    def __init__(self, tools: FlowTools, request: OperatorRequest) -> None:
        self._tools = tools
        self._do = _OPERATORS[request.call.operator.name]

    async def perform(self, request: OperatorRequest, give: Give) -> None:
        """Do what a request asks."""
        given = request.arguments
        name = str(given["source"] if "source" in given else given["dest"])
        source = source_of(self._tools.sources, name)
        if source.kind != "sqlite":
            raise FlowError("bad-source", f"expected a database, found {name} of kind {source.kind}")
        path = source.file(self._tools.home)
        self._tools.labels.add(FILE)
        try:
            answers = await self._tools.code.in_thread(partial(self._do, source, path, request))
            while some := await self._tools.code.in_thread(lambda: next(answers, None)):
                await give(FlowAnswer(some))
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
    with closing(_reading(path)) as database:
        cursor = database.execute(f"SELECT * FROM {_quoted(str(request.arguments['name']))}")  # noqa: S608
        schema = tuple(column[0] for column in cursor.description)
        yield from _batches(schema, cursor)


def _export(source: FlowSource, path: Path, request: OperatorRequest) -> Iterator[TupleBatch]:
    """Replace a table, all at once (TA21)."""
    relation = request.arguments["in"]
    assert isinstance(relation, Relation), request
    table = _quoted(str(request.arguments["name"]))
    with closing(_writing(source, path)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        database.execute(f"DROP TABLE IF EXISTS {table}")
        _create(database, table, relation.schema or ("value",))
        for batch in relation.batches():
            _insert(database, "INSERT", table, batch.schema, batch.rows)
    return iter(())


def _append(source: FlowSource, path: Path, request: OperatorRequest) -> Iterator[TupleBatch]:
    """Add tuples; one whose key is there takes its place."""
    if request.batch is None:
        return iter(())
    schema, rows, _ = request.batch
    table = _quoted(str(request.arguments["name"]))
    parsed = request.call.parsed.get("key")
    key = tuple(parsed) if parsed else tuple(filter(None, str(request.arguments.get("key", "")).split(",")))
    with closing(_writing(source, path)) as database, database:
        database.execute("BEGIN IMMEDIATE")
        _create(database, table, schema, tuple(name.strip() for name in key))
        _insert(database, "INSERT OR REPLACE" if key else "INSERT", table, schema, rows)
    return iter(())


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
    return database


def _writing(source: FlowSource, path: Path) -> sqlite3.Connection:
    if not source.write:
        message = f"[sources.{source.name}] may only be read; write = true there allows more"
        raise FlowError("forbidden", message)
    return sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)


def _bound(request: OperatorRequest) -> dict[str, Any]:
    """The attributes of the tuple at hand, by name."""
    if request.batch is None:
        return {}
    schema, rows, _ = request.batch
    return dict(zip(schema, rows[0], strict=True))


def _batches(schema: Schema, rows: Iterable[Row]) -> Iterator[TupleBatch]:
    found = iter(rows)
    while some := list(islice(found, BATCH)):
        yield TupleBatch(schema, [tuple(map(_plain, row)) for row in some])


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _quoted(name: str) -> str:
    """A name as SQL has it. Raises FlowError for one that it cannot have."""
    if not name.strip() or "\0" in name:
        raise FlowError("wrong-text", f"expected the name of a table or column, found {name!r:.80}")
    return '"' + name.replace('"', '""') + '"'


def _create(database: sqlite3.Connection, table: str, schema: Schema, key: Sequence[str] = ()) -> None:
    columns = ", ".join(map(_quoted, schema))
    unique = f", UNIQUE ({', '.join(map(_quoted, key))})" if key else ""
    database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns}{unique})")


def _insert(database: sqlite3.Connection, verb: str, table: str, schema: Schema, rows: list[Row]) -> None:
    columns, places = ", ".join(map(_quoted, schema)), ", ".join("?" * len(schema))
    database.executemany(f"{verb} INTO {table} ({columns}) VALUES ({places})", rows)

"""The store in a database: SQLite in a file by default, PostgreSQL by its URL (design, "Storage").

The statements come from `tables.py`. The one writer executes them through the driver's cursor: a batch that
is one row is one statement, which the database commits by itself; any other goes between BEGIN and COMMIT.
Readers have connections of their own and go through SQLAlchemy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

from sqlalchemy import (
    Connection,
    Engine,
    Executable,
    Select,
    create_engine,
    make_url,
    select,
    union_all,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from narval import __version__
from narval.errors import SettingsError, StoreError, UnreadableError
from narval.memory.element import Element
from narval.runtime import sqlite, tables
from narval.runtime.codec import decode_origin
from narval.runtime.sqlite import trouble
from narval.runtime.store import (
    Batch,
    DefinitionRow,
    Durability,
    JournalRow,
    KeptElement,
    MomentRow,
    QueuedRow,
    RunRow,
    SnapshotRow,
    Store,
)

MIGRATIONS = Path(__file__).parent / "migrations"
_NOT_PERFORMED = "nothing of this turn was performed"


def open_database(where: Path | str, durability: Durability, patience: float) -> Store:
    """The store there, made, checked and brought up to date as it needs. Raises StoreError."""
    if durability not in get_args(Durability):
        raise SettingsError(f"expected durability to be crash or power, got: {durability}")
    file, url = _address(where)
    name = str(file) if file is not None else make_url(url).render_as_string(hide_password=True)
    engine: Engine | None = None
    try:
        if file is not None:
            sqlite.ensure_file(file, durability, patience)
            engine = sqlite.file_engine(file, durability, patience)
        else:
            # Positional parameters, whatever the driver prefers: rows are tuples.
            engine = create_engine(url, isolation_level="AUTOCOMMIT", paramstyle="format")
        _begin(engine, file, name)
        return Database(engine, name)
    except (SQLAlchemyError, sqlite3.Error, OSError, ImportError) as error:
        _dispose(engine)
        raise trouble(name, error) from error
    except BaseException:
        _dispose(engine)
        raise


class Database(Store):
    """The tables of `tables.py`, and their one writer."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine, self._name = engine, name
        self._writer = engine.raw_connection()
        cursor = self._writer.cursor()
        self._execute, self._execute_many = cursor.execute, cursor.executemany
        self._writes = tables.writes(engine.dialect)
        self._put_meta = next(write.sql for write in self._writes if write.slot == "meta")
        self._driver_error: type[Exception] = engine.dialect.loaded_dbapi.Error
        self._refusal = ""
        self._closed = False

    # --- writing --------------------------------------------------------------------------------------

    def commit(self, *batches: Batch) -> None:
        """Record the batches, all or nothing."""
        if self._refusal:
            raise StoreError(self._refusal)
        try:
            work = self._work(batches)
            if len(work) == 1 and len(work[0][1]) == 1:
                self._execute(work[0][0], work[0][1][0])
            elif work:
                self._execute("BEGIN")
                for sql, rows in work:
                    if len(rows) == 1:
                        self._execute(sql, rows[0])
                    else:
                        self._execute_many(sql, rows)
                self._execute("COMMIT")
        except BaseException as error:
            refused = trouble(self._name, error, _NOT_PERFORMED)
            self._refusal = f"no turn is recorded after one that could not be: {refused}"
            with suppress(self._driver_error):  # the database has rolled back by itself, or is gone
                self._writer.rollback()
            if isinstance(error, self._driver_error):
                raise refused from error
            raise

    def _work(self, batches: Iterable[Batch]) -> list[tuple[str, tables.Rows]]:
        """The statements that record the batches, each with its rows."""
        work: list[tuple[str, tables.Rows]] = []
        for batch in batches:
            for slot, sql, rows in self._writes:
                filled = getattr(batch, slot)
                if filled and (rows is None or (filled := rows(batch))):
                    work.append((sql, filled))
        return work

    def close(self) -> None:
        """Mark the stop as clean, and let go of the database."""
        if self._closed:
            return
        self._closed = True
        if not self._refusal:
            self._refusal = f"the store is closed: {self._name}"
            with suppress(self._driver_error):  # unmarked, the next start looks closer: nothing is lost
                self._execute(self._put_meta, ("clean", "1"))
        self._writer.close()
        self._engine.dispose()

    # --- reading --------------------------------------------------------------------------------------

    def elements(self) -> Iterator[KeptElement]:
        """All elements, oldest first; their names are known without parsing."""
        for eid, name, xml, added, origin, declared, outdated, _ in self._stream(_all(tables.elements)):
            known, fault = None, ""
            try:
                known = decode_origin(origin)
            except UnreadableError as error:
                fault = str(error)
            yield KeptElement(Element(eid, xml, added, known, name), declared, outdated, fault)

    def contexts(self) -> Iterator[tuple[int, int]]:
        """Run and eid, of elements and runs that are there."""
        makers, others = tables.elements.c, tables.contexts.c
        runs, elements = select(tables.runs.c.eid), select(makers.eid)
        held = union_all(
            select(makers.held_by.label("run"), makers.eid).where(makers.held_by.in_(runs)),
            select(others.run, others.eid).where(others.run.in_(runs), others.eid.in_(elements.union(runs))),
        ).order_by("run", "eid")
        return ((run, eid) for run, eid in self._stream(held))

    def marks(self) -> Iterator[tuple[str, str, str, int]]:
        """Definition, place, slot, eid."""
        rows = self._stream(_all(tables.marks))
        return ((definition, place, slot, eid) for eid, definition, place, slot in rows)

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """Name, expression, value."""
        return ((name, expression, value) for name, expression, value in self._stream(_all(tables.keys)))

    def queue(self) -> list[QueuedRow]:
        """The events still waiting."""
        return list(map(QueuedRow._make, self._read(_all(tables.queue))))

    def moments(self) -> list[MomentRow]:
        """What is to be done later, soonest first."""
        columns = tables.moments.c
        return list(map(MomentRow._make, self._read(select(tables.moments).order_by(columns.at, columns.id))))

    @property
    def meta(self) -> Mapping[str, str]:
        """Small facts about the home."""
        return dict(map(tuple, self._read(_all(tables.meta))))

    def runs(
        self,
        *,
        phase: str | None = None,
        state: str | None = None,
        kind: str | None = None,
        name: str | None = None,
    ) -> list[RunRow]:
        """The runs of that phase, state, kind and name, oldest first."""
        statement = _all(tables.runs)
        for column, value in {"phase": phase, "state": state, "kind": kind, "name": name}.items():
            if value is not None:
                statement = statement.where(tables.runs.c[column] == value)
        return list(map(RunRow._make, self._read(statement)))

    def run(self, eid: int) -> RunRow | None:
        """One run."""
        rows = self._read(select(tables.runs).where(tables.runs.c.eid == eid))
        return RunRow._make(rows[0]) if rows else None

    def journal(self, run: int, after: int = 0) -> Iterator[JournalRow]:
        """The entries of a run."""
        columns = tables.journal.c
        statement = _all(tables.journal).where(columns.run == run, columns.seq > after)
        return map(JournalRow._make, self._read(statement))

    def journal_all(self, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """The entries of all runs."""
        statement = _all(tables.journal).where(tables.journal.c.seq > after).limit(limit)
        return list(map(JournalRow._make, self._read(statement)))

    def snapshot(self, run: int) -> SnapshotRow | None:
        """The last state kept of a run."""
        rows = self._read(select(tables.snapshots).where(tables.snapshots.c.run == run))
        return SnapshotRow._make(rows[0]) if rows else None

    def definitions(self, current: bool | None = True) -> list[DefinitionRow]:
        """The versions of definitions, by the moment they were loaded."""
        columns = tables.definitions.c
        statement = select(tables.definitions).order_by(columns.loaded, columns.kind, columns.name)
        if current is not None:
            statement = statement.where(columns.current == current)
        return list(map(DefinitionRow._make, self._read(statement)))

    def definition(self, digest: str) -> DefinitionRow | None:
        """The version of that digest."""
        rows = self._read(select(tables.definitions).where(tables.definitions.c.digest == digest))
        return DefinitionRow._make(rows[0]) if rows else None

    def _read(self, statement: Select[Any]) -> list[Any]:
        with self._reading() as connection:
            return list(connection.execute(statement))

    def _stream(self, statement: Executable) -> Iterator[Any]:
        """Rows as they are wanted, a thousand at a time."""
        with self._reading() as connection:
            yield from connection.execution_options(yield_per=1000).execute(statement)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise trouble(self._name, error) from error


# --- opening --------------------------------------------------------------------------------------------


def _address(where: Path | str) -> tuple[Path | None, str]:
    """The file of a SQLite store, and the URL of any other."""
    if isinstance(where, Path) or "://" not in where:
        return Path(where).absolute(), ""
    try:
        url = make_url(where)
    except ArgumentError as error:
        raise StoreError(f"expected a path or a database URL, got: {where} ({error})") from None
    if url.get_backend_name() != "sqlite":
        return None, where
    if not url.database or url.database == ":memory:":
        raise StoreError(f"expected the URL of a file, such as sqlite:////home/me/store.db, got: {where}")
    return Path(url.database).absolute(), ""


def _begin(engine: Engine, file: Path | None, name: str) -> None:
    """Check, bring up to date, and mark as in use."""
    with engine.connect() as connection:
        present = set(engine.dialect.get_table_names(connection))
        if file is None and not present:
            sqlite.make_schema(connection)
            present = set(tables.metadata.tables)
        if not present >= {tables.stamp.name, tables.meta.name}:
            raise StoreError(f"expected a store of narval in {name}, got a database of something else")
        version = connection.execute(select(tables.stamp.c.version_num)).scalar()
        known = dict(map(tuple, connection.execute(select(tables.meta))))
        _refuse_newer(version or "", known, name)
        if file is not None and known.get("clean") != "1":
            sqlite.quick_check(connection, file)
        if version != tables.HEAD:
            migrate(connection)
        if file is not None:
            sqlite.shrink(connection)
        _mark_in_use(connection)


def _refuse_newer(version: str, known: Mapping[str, str], name: str) -> None:
    # Versions are numbered 0001, 0002, …: what is not before ours is after it.
    if version > tables.HEAD:
        writer = known.get("narval", "?")
        raise StoreError(
            f"{name} was written by narval {writer} (schema {version}), which is newer than this one, "
            f"{__version__} (schema {tables.HEAD}); start it with that version or a later one"
        )


def migrate(connection: Connection) -> None:
    """Bring a database from any earlier version, or from nothing, to `HEAD`; all or nothing."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    connection.exec_driver_sql("BEGIN")
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(f"the store cannot be brought up to date: {error}; put back a backup") from error
    connection.exec_driver_sql("COMMIT")


def _mark_in_use(connection: Connection) -> None:
    """From now until `close` a stop is not clean; versions of definitions that no run needs are dropped."""
    columns = tables.definitions.c
    needed = columns.digest.in_(select(tables.runs.c.digest))
    connection.execute(tables.definitions.delete().where(columns.current.is_(False), ~needed))
    for key, value in {"clean": "0", "narval": __version__}.items():
        connection.execute(tables.meta.update().where(tables.meta.c.key == key).values(value=value))


def _dispose(engine: Engine | None) -> None:
    if engine is not None:
        engine.dispose()


def _all(table: Any) -> Select[Any]:
    """Every row, in the order of the primary key."""
    return select(table).order_by(*table.primary_key.columns)

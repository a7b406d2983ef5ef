"""A store that is looked at: all of one moment, nothing altered, whatever is beside the file."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from narval.core.errors import StoreError
from narval.store import look as looking
from narval.store import sqlite, tables
from narval.store.batch import STORE
from narval.store.open import look_into, open_store
from tests.store.stores import HARNESS, added, batch, content, entry, filled_store


def nobody() -> bool:
    return False


def look(path: Path | str) -> Any:
    return look_into(path, nobody)


def files(path: Path) -> dict[str, tuple[int, bytes]]:
    return {name.name: (name.stat().st_mtime_ns, name.read_bytes()) for name in path.parent.iterdir()}


@contextmanager
def writer(path: Path, program: str) -> Iterator[subprocess.Popen[str]]:
    """A program that writes the store, from when it says that it is ready."""
    running = subprocess.Popen(
        [sys.executable, "-c", HARNESS + textwrap.dedent(program), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield running
    finally:
        running.kill()
        running.communicate()


COMMITTED = """
    store = open_store(Path(sys.argv[1]))
    store.commit(turn(0))
    print('ready', flush=True)
    sys.stdin.readline()
    """
"""A commit that is in the log, for it is not folded into the file before the end."""


def test_all_that_is_in_a_store_can_be_seen(path: Path) -> None:
    kept, before = filled_store(path, clean=True), files(path)
    with look(path) as store:
        assert content(store) == kept
        assert store.is_still()
    assert files(path) == before
    assert list(before) == ["store.db"]


def test_N35_what_is_in_the_log_of_a_killed_daemon_is_seen(path: Path) -> None:
    with writer(path, COMMITTED):
        pass
    assert path.with_name("store.db-wal").stat().st_size > 0
    before = files(path)
    with look(path) as store:
        assert [kept.element.eid for kept in store.of().elements()] == [1]
    assert files(path) == before
    path.with_name("store.db-shm").unlink()  # the index of the log: a copy can do without
    before = files(path)
    with look(path) as store:
        assert [kept.element.eid for kept in store.of().elements()] == [1]
    assert files(path) == before


def test_where_no_store_is_none_is_made(path: Path) -> None:
    with look(path) as store:
        assert list(store.of().elements()) == store.of().runs() == []
    assert os.listdir(path.parent) == []


def test_what_is_committed_to_a_look_is_seen_in_it_alone(path: Path) -> None:
    filled_store(path, clean=True)
    with look(path) as store:
        first = [row.seq for row in store.of().journal(1000)]
        store.commit(batch(journal=[entry(1000, 9_000)]))
        assert [row.seq for row in store.of().journal(1000)] == [*first, 9_000]
    with look(path) as store:
        assert [row.seq for row in store.of().journal(1000)] == first


GROWING = """
    store = open_store(Path(sys.argv[1]))
    print('ready', flush=True)
    for number in range(10_000):
        store.commit(turn(number, 500))
    """


def test_a_large_commit_is_seen_whole_or_not_at_all(path: Path) -> None:
    seen = set()
    with writer(path, GROWING):
        while len(seen) < 5:
            with look(path) as store:
                elements = sum(1 for _ in store.of().elements())
                turns = len(list(store.of().journal(1)))
                assert elements == 500 * turns
                assert {row.state for row in store.of().runs()} == ({str(turns - 1)} if turns else set())
                assert store.is_still()
                seen.add(turns)


def test_it_stays_what_it_was_while_others_write(path: Path) -> None:
    with open_store(path) as store:
        store.commit(batch(elements=[added(1)]))
        with look(path) as seen:
            assert len(list(seen.of().elements())) == 1
            store.commit(batch(elements=[added(2)]))
            assert len(list(seen.of().elements())) == 1
            assert seen.is_still()
        with look(path) as seen:
            assert len(list(seen.of().elements())) == 2


def test_a_file_that_was_written_meanwhile_is_no_more_what_it_was(path: Path) -> None:
    filled_store(path, clean=True)
    with look(path) as seen:
        assert len(list(seen.of().elements())) == 60
        with open_store(path) as store:
            assert seen.is_still()  # the new rows are in the log
            store.commit(batch(elements=[added(61)]))
            assert seen.is_still()
        assert not seen.is_still()  # they have been folded into the file


# --- damage ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("remains", [b"", b"no store at all, but a text of some length" * 9])
def test_what_is_no_store_is_named(path: Path, remains: bytes) -> None:
    path.write_bytes(remains)
    with pytest.raises(StoreError, match="damaged, or no store"), look(path):
        pass
    assert path.read_bytes() == remains


def test_a_database_of_something_else_is_named(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE birds (name)")
    with pytest.raises(StoreError, match="got a database of something else"), look(path):
        pass


def test_a_log_whose_file_is_gone_is_told(path: Path) -> None:
    with writer(path, COMMITTED):
        pass
    path.unlink()
    with pytest.raises(StoreError, match=r"is gone, but store.db-wal is there"), look(path):
        pass


def test_after_a_stop_that_was_not_clean_the_file_is_checked_unless_somebody_works(path: Path) -> None:
    filled_store(path, clean=False)
    data = bytearray(path.read_bytes())
    data[sqlite.PAGE * 30 : sqlite.PAGE * 31] = b"\xff" * sqlite.PAGE
    path.write_bytes(data)
    with pytest.raises(StoreError, match="the store is damaged"), look(path):
        pass
    with look_into(path, lambda: True) as store:
        assert store.of(STORE).meta["clean"] == "0"


def test_a_damaged_file_that_is_looked_at_in_a_copy_is_named(path: Path) -> None:
    filled_store(path, clean=False)
    data = bytearray(path.read_bytes())
    data[sqlite.PAGE * 30 : sqlite.PAGE * 31] = b"\xff" * sqlite.PAGE
    path.write_bytes(data)
    path.with_name("store.db-wal").write_bytes(b"a log without its index")
    with pytest.raises(StoreError, match=re.escape(f"the store is damaged: {path}")), look(path):
        pass


# --- versions -------------------------------------------------------------------------------------------


def test_a_newer_store_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled_store(path, clean=True)
    monkeypatch.setattr(tables, "HEAD", 1)
    before = files(path)
    with pytest.raises(StoreError, match="newer than this one"), look(path):
        pass
    assert files(path) == before


# --- a server -------------------------------------------------------------------------------------------


class Cursor:
    """A cursor that knows how PostgreSQL begins a transaction."""

    def __init__(self, cursor: sqlite3.Cursor, said: list[str]) -> None:
        self._cursor, self._said = cursor, said

    def execute(self, sql: str, given: tuple[Any, ...] = ()) -> None:
        self._said.append(sql)
        self._cursor.execute("BEGIN" if sql.startswith("BEGIN") else sql, given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)


class Connection:
    def __init__(self, connection: sqlite3.Connection, said: list[str]) -> None:
        self._connection, self._said = connection, said

    def cursor(self) -> Cursor:
        return Cursor(self._connection.cursor(), self._said)

    def close(self) -> None:
        self._connection.close()


class Served:
    """A driver that is no file to the store: what a server has is faked by one of SQLite."""

    def __init__(self, path: Path) -> None:
        self._file, self.said = sqlite.File(path, "crash", 1.0), list[str]()
        self.name, self.errors, self.statements = "server", self._file.errors, self._file.statements
        self.close = self._file.close

    def connect(self) -> Connection:
        return Connection(self._file.connect(), self.said)

    def tables(self, _: Any) -> set[str]:
        with closing(self._file.connect()) as connection:
            return self._file.tables(connection)


@pytest.fixture
def served(path: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    driver = Served(path)
    monkeypatch.setattr(looking, "driver_of", lambda *_: driver)
    return driver


def test_a_server_is_asked_in_one_transaction_that_only_reads(path: Path, served: Served) -> None:
    kept = filled_store(path, clean=True)
    with look("postgresql://somewhere/store") as store:
        assert content(store) == kept
    begun = [sql for sql in served.said if not sql.startswith("SELECT")]
    assert begun == ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"]
    assert served.said[0] == begun[0]


def test_no_tables_are_made_on_a_server(path: Path, served: Served) -> None:
    path.touch()
    with look("postgresql://somewhere/store") as store:
        assert store.of().runs() == []
    assert served.said == []


def test_older_tables_on_a_server_are_left_to_a_daemon(
    path: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled_store(path, clean=True)
    monkeypatch.setattr(tables, "HEAD", 9999)
    with pytest.raises(StoreError, match="start a daemon once"), look("postgresql://somewhere/store"):
        pass

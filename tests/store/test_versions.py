"""Tables, their migrations, and stores of other versions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from narval.core.errors import StoreError
from narval.store import migrate, releases, tables
from narval.store.__main__ import bring
from narval.store.batch import STORE
from narval.store.open import look_into, open_store
from narval.store.tables import POSTGRESQL, SQLITE
from tests.store.older_stores import VERSIONS
from tests.store.stores import added, batch, filled_store, read_all


def schema(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    found = {
        " ".join(sql.replace('"', "").split())
        for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql <> ''")
    }
    connection.close()
    return found


def test_a_migrated_store_has_the_schema_of_a_new_one(path: Path, tmp_path: Path) -> None:
    open_store(path).close()
    older = tmp_path / "older.db"
    with closing(sqlite3.connect(older)) as connection:
        connection.executescript((VERSIONS / f"{migrate.OLDEST:04}.sql").read_text("utf-8"))
    open_store(older).close()
    assert schema(older) == schema(path)
    assert len(schema(path)) > 10


def test_a_step_back_and_forth_gives_the_same_store(path: Path) -> None:
    kept, new = filled_store(path, clean=True), schema(path)
    for version in range(tables.HEAD - 1, migrate.OLDEST - 1, -1):
        bring(str(path), version)
        assert schema(path) != new
        assert read_all(path) == kept
        assert schema(path) == new


def test_a_store_that_is_in_use_stays_as_it_is(path: Path) -> None:
    with open_store(path) as store:
        before = schema(path)
        with pytest.raises(StoreError, match="in use: stop the daemon"):
            bring(str(path), tables.HEAD - 1)
        assert schema(path) == before
        store.commit(batch(elements=[added(1)]))
    with pytest.raises(StoreError, match=f"expected a version from .* to {tables.HEAD}, got 99"):
        bring(str(path), 99)


def test_hearsay_of_before_is_of_a_model_that_is_not_known(path: Path) -> None:
    open_store(path).close()
    bring(str(path), 5)
    with closing(sqlite3.connect(path)) as other, other:
        other.executemany("INSERT INTO marks VALUES (1, ?, ?, ?, ?, 0)", [
            ("narval", "model", "answer", 7), ("w.reads", "step", "mail", 7),
        ])  # fmt: skip
    with open_store(path) as store:
        assert list(store.of().labels()) == [(7, "model:*")]
        assert [mark.definition for mark in store.of().marks()] == ["w.reads"]


def test_there_is_a_step_for_both_databases_to_each_version() -> None:
    numbers = range(migrate.OLDEST + 1, tables.HEAD + 1)
    steps = {f"{number:04}.{of.name}.sql" for number in numbers for of in (SQLITE, POSTGRESQL)}
    assert {path.name for path in releases.MIGRATIONS.iterdir()} == steps


def test_a_version_that_is_too_old_is_named_and_left_alone(path: Path) -> None:
    open_store(path).close()
    bring(str(path), migrate.OLDEST)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE alembic_version SET version_num = '0003'")
    before = schema(path)
    with pytest.raises(StoreError, match=r"expected tables of version 4 or later .*, got 3"):
        open_store(path)
    assert schema(path) == before


def test_an_older_store_is_brought_up_to_date_with_all_it_has(
    path: Path, next_version: Callable[..., None]
) -> None:
    kept = filled_store(path, clean=True)
    next_version()
    store = open_store(path)
    assert store.of().runs() == kept["runs"]
    assert any("colour" in sql for sql in schema(path))
    assert [kept.element.eid for kept in store.of().elements()] == list(range(1, 61))
    store.close()


def test_a_migration_that_fails_changes_nothing(path: Path, next_version: Callable[..., None]) -> None:
    kept, now = filled_store(path, clean=True), tables.HEAD
    before = schema(path)
    next_version("INSERT INTO nowhere VALUES (1);")
    with pytest.raises(StoreError, match="nowhere"):
        open_store(path)
    assert schema(path) == before
    tables.HEAD = now  # restored by the fixture
    assert read_all(path)["elements"] == kept["elements"]


def test_a_store_of_a_newer_narval_is_refused_untouched(path: Path) -> None:
    open_store(path).close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE version SET number = 999")
        other.execute("UPDATE meta SET value = '7.5.0' WHERE key = 'narval'")
        other.execute("UPDATE meta SET value = '999' WHERE key = 'tables_for'")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError) as raised:
        open_store(path)
    for part in (str(path), "written by narval 7.5.0 (schema 999)", "newer than this one", "or a later one"):
        assert part in str(raised.value)
    assert path.read_bytes() == before


def test_tables_that_only_have_more_are_worked_on_by_the_release_before(
    path: Path, next_version: Callable[..., None]
) -> None:
    kept, now = filled_store(path, clean=True), tables.HEAD
    next_version(first="-- additive\n")
    open_store(path).close()
    tables.HEAD = now  # restored by the fixture
    with look_into(path, lambda: False) as store:
        assert len(list(store.of().elements())) == len(kept["elements"])
    assert read_all(path) == kept
    with open_store(path) as store:
        store.commit(batch(elements=[added(70)]))
    tables.HEAD = now + 1
    with open_store(path) as store:
        assert any(row.element.eid == 70 for row in store.of().elements())
    bring(str(path), now)
    tables.HEAD = now
    assert len(read_all(path)["elements"]) == len(kept["elements"]) + 1


def test_a_store_that_is_made_with_more_is_worked_on_by_the_release_before_and_not_taken_back_by_it(
    path: Path, next_version: Callable[..., None]
) -> None:
    now = tables.HEAD
    next_version(first="-- additive\n")
    open_store(path).close()
    tables.HEAD = now  # restored by the fixture
    with open_store(path) as store:
        store.commit(batch(elements=[added(70)]))
    for to in (now, now - 1):
        with pytest.raises(StoreError, match="let the one that made them take them back"):
            bring(str(path), to)
    tables.HEAD = now + 1
    with open_store(path) as store:
        assert [row.element.eid for row in store.of().elements()] == [70]


def test_a_database_of_something_else_is_refused_untouched(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    with pytest.raises(StoreError, match="got a database of something else"):
        open_store(path)
    assert schema(path) == {"CREATE TABLE recipes (name TEXT)"}


def test_an_older_store_is_looked_at_in_a_copy(path: Path, next_version: Callable[..., None]) -> None:
    kept = filled_store(path, clean=True)
    next_version()
    before = path.read_bytes()
    with look_into(path, lambda: False) as store:
        assert store.of().runs() == kept["runs"]
        assert store.of(STORE).meta["clean"] == "1"
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.glob("store.db*")] == ["store.db"]


def test_a_backup_is_kept_before_tables_are_altered(path: Path, next_version: Callable[..., None]) -> None:
    kept = filled_store(path, clean=True)
    next_version()
    for number in ("", "-2"):
        open_store(path).close()
        backup = path.with_name(f"store.db.of-version-{tables.HEAD - 1:04}{number}")
        assert backup.stat().st_mode & 0o077 == 0
        with look_into(backup, lambda: False) as store:
            assert store.of().runs() == kept["runs"]
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("UPDATE version SET number = number - 1")
            other.execute("ALTER TABLE runs DROP COLUMN colour")
    assert not list(path.parent.glob(".*.new")), "nothing half written stays"


def test_a_backup_is_kept_before_a_step_back(path: Path) -> None:
    kept = filled_store(path, clean=True)
    bring(str(path), tables.HEAD - 1)
    (backup,) = path.parent.glob("store.db.of-version-*")
    assert backup.name.endswith(f"{tables.HEAD:04}")
    assert read_all(backup) == kept


def test_a_store_whose_backup_cannot_be_written_is_not_altered(
    path: Path, next_version: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    filled_store(path, clean=True)
    before = schema(path)
    next_version()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(migrate, "sync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        open_store(path)
    assert schema(path) == before
    assert [found.name for found in path.parent.glob("*of-version*")] == []


def test_a_store_that_needs_a_later_release_is_refused_with_the_next_step(path: Path) -> None:
    open_store(path).close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("INSERT INTO meta VALUES (0, 'needs', '7.5.0')")
    said = r"has records that need narval 7\.5\.0 or later, and this is .*; start it with narval 7\.5\.0"
    with pytest.raises(StoreError, match=said):
        open_store(path)
    with pytest.raises(StoreError, match=said), look_into(path, lambda: False):
        pass

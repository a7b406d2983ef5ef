"""Tables, their migrations, and stores of other versions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from narval.core.errors import StoreError
from narval.store import sqlite
from narval.store.batch import STORE
from narval.store.open import look_into, open_store
from tests.store.stores import filled_store, harness, read_all


def schema(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    found = {
        " ".join(sql.split())
        for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql <> ''")
    }
    connection.close()
    return found


def test_migrating_from_nothing_gives_the_schema_of_a_new_store(path: Path, tmp_path: Path) -> None:
    from narval.store import migrate, statements

    open_store(path).close()
    migrated = tmp_path / "migrated.db"
    migrate.migrate(sqlite.File(migrated, "crash", 1.0).engine(), "migrated")
    assert schema(migrated) == schema(path)
    assert len(schema(path)) > 10
    connection = sqlite3.connect(migrated)
    found = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    assert found == [(statements.HEAD,)]
    connection.close()


def test_alembic_finds_nothing_to_add_to_the_tables(path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from narval.store import columns

    open_store(path).close()
    with sqlite.File(path, "crash", 1.0).engine().connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), columns.metadata) == []


def test_the_last_migration_is_the_version_of_the_tables() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    from narval.store import migrate, statements

    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [statements.HEAD]


def test_alembic_is_not_imported_for_a_store_of_this_version(path: Path) -> None:
    program = "open_store(Path(sys.argv[1])).close(); print('alembic' in sys.modules)"
    assert harness(program, path) == "False\n"
    assert harness(program, path) == "False\n"


def test_sqlalchemy_is_not_imported_for_a_store_in_memory_or_a_file(path: Path) -> None:
    assert harness("open_store(None).close(); print('sqlalchemy' in sys.modules)") == "False\n"
    program = """
        store = open_store(Path(sys.argv[1]))
        store.commit(turn(len(store.of().runs())))
        print('sqlalchemy' in sys.modules)
        """
    assert harness(program, path) == "False\n"
    assert harness(program, path) == "False\n"


def test_what_is_written_down_for_sqlite_are_the_statements_of_the_tables() -> None:
    from sqlalchemy.dialects.sqlite import dialect

    from narval.store import statements, tables

    of_tables = {name: " ".join(text.split()) for name, text in tables.statements(dialect()).items()}
    written = {name: " ".join(text.split()) for name, text in statements.of_sqlite().items()}
    assert written == of_tables, "python -m narval.store.tables writes them anew"
    assert {name for _, name, _ in statements.WRITES} <= set(written)


def test_an_older_store_is_brought_up_to_date_with_all_it_has(
    path: Path, next_version: Callable[[str], None]
) -> None:
    kept = filled_store(path, clean=True)
    next_version("pass")
    store = open_store(path)
    assert store.of().runs() == kept["runs"]
    assert any("colour" in sql for sql in schema(path))
    assert [kept.element.eid for kept in store.of().elements()] == list(range(1, 61))
    store.close()


def test_a_migration_that_fails_changes_nothing(path: Path, next_version: Callable[[str], None]) -> None:
    from narval.store import statements

    kept, now = filled_store(path, clean=True), statements.HEAD
    before = schema(path)
    next_version("op.execute('INSERT INTO nowhere VALUES (1)')")
    with pytest.raises(StoreError, match="nowhere"):
        open_store(path)
    assert schema(path) == before
    statements.HEAD = now  # restored by the fixture
    assert read_all(path)["elements"] == kept["elements"]


def test_a_store_of_a_newer_narval_is_refused_untouched(path: Path) -> None:
    open_store(path).close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE alembic_version SET version_num = '0999'")
        other.execute("UPDATE meta SET value = '7.5.0' WHERE key = 'narval'")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError) as raised:
        open_store(path)
    for part in (str(path), "written by narval 7.5.0 (schema 0999)", "newer than this one", "or a later one"):
        assert part in str(raised.value)
    assert path.read_bytes() == before


def test_a_database_of_something_else_is_refused_untouched(path: Path) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    with pytest.raises(StoreError, match="got a database of something else"):
        open_store(path)
    assert schema(path) == {"CREATE TABLE recipes (name TEXT)"}


def test_an_older_store_is_looked_at_in_a_copy(path: Path, next_version: Callable[[str], None]) -> None:
    kept = filled_store(path, clean=True)
    next_version("pass")
    before = path.read_bytes()
    with look_into(path, lambda: False) as store:
        assert store.of().runs() == kept["runs"]
        assert store.of(STORE).meta["clean"] == "1"
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.glob("store.db*")] == ["store.db"]

"""Where a store is, and how it is opened."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from narval.core.engines.commands import CancelTimer, SetTimer
from narval.core.engines.events import TimerFired
from narval.core.errors import SettingsError, StoreError
from narval.store import sqlite
from narval.store.batch import Advance
from narval.store.codec import decode_entry
from narval.store.memory import VolatileStore
from narval.store.open import open_store
from tests.store.stores import PAGE, Moved, added, batch, entry


@pytest.mark.parametrize(("durability", "synchronous"), [("crash", 1), ("power", 2)])
def test_durability_decides_what_a_commit_waits_for(path: Path, durability: Any, synchronous: int) -> None:
    with open_store(path, durability) as store:
        connection = store.writer  # type: ignore[attr-defined]
        assert connection.execute("PRAGMA synchronous").fetchone() == (synchronous,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA page_size").fetchone() == (PAGE,)


def test_an_unknown_durability_is_refused(path: Path) -> None:
    with pytest.raises(SettingsError, match="expected durability to be crash or power, got: maybe"):
        open_store(path, "maybe")  # type: ignore[arg-type]


def test_a_url_may_name_the_file(path: Path) -> None:
    with open_store(f"sqlite:///{path}") as store:
        store.commit(batch(elements=[added(1)]))
    with open_store(str(path)) as store:
        assert len(list(store.of().elements())) == 1


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("sqlite://", "expected the URL of a file"),
        ("sqlite:///:memory:", "expected the URL of a file"),
        ("://", "expected a path or a database URL"),
        ("nosuch://somewhere/store", "expected a path or a database URL"),
        ("mysql+pymysql://me:secret@somewhere/store", r"postgresql://me@host/narval, got: mysql.*me:\*\*\*@"),
        ("postgresql://somewhere/store?nosuch=1", "one that libpq does not read"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused(where: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        open_store(where)


def test_none_is_a_store_in_memory() -> None:
    store = open_store(None)
    assert isinstance(store, VolatileStore)
    known = store.of()
    assert list(known.elements()) == list(known.contexts()) == list(known.marks()) == list(known.keys()) == []
    assert list(known.labels()) == []
    assert known.queue() == known.moments() == []
    assert known.meta == {}


def test_the_store_is_for_its_owner_alone(path: Path) -> None:
    with open_store(path) as store:
        store.commit(batch(elements=[added(1)]))
        for each in path.parent.iterdir():
            assert stat.S_IMODE(each.stat().st_mode) == 0o600, each


def test_a_backup_can_be_taken_while_the_store_is_open(path: Path, tmp_path: Path) -> None:
    with open_store(path) as store:
        store.commit(batch(elements=[added(1)], journal=[entry(1, 1)]))
        other = sqlite3.connect(path)
        other.execute("VACUUM INTO ?", [str(tmp_path / "backup.db")])
        other.close()
        store.commit(batch(elements=[added(2)]))
    with open_store(tmp_path / "backup.db") as backup:
        assert [kept.element.eid for kept in backup.of().elements()] == [1]
        assert len(list(backup.of().journal(1))) == 1


def test_a_million_and_one_is_read_as_it_comes(path: Path) -> None:
    """Readers for the start give rows as they are wanted: a stop in the middle harms nothing."""
    with open_store(path) as store:
        store.commit(batch(elements=[added(number) for number in range(1, 3001)]))
        some = store.of().elements()
        assert next(some).element.eid == 1
        store.commit(batch(elements=[added(3001)]))
        assert sum(1 for _ in some) == 2999
        assert len(list(store.of().elements())) == 3001


def test_the_commands_of_an_entry_are_in_it(path: Path) -> None:
    with open_store(path) as store:
        wished = (SetTimer("a", 2.0), CancelTimer("a"))
        store.commit(batch(journal=[Advance(1, 1, TimerFired(1, 1.0, "w"), (), wished)]))
        kept = decode_entry(next(store.of().journal(1)).data, Moved, lambda eid: None)
    assert kept.commands == [SetTimer("a", 2.0), CancelTimer("a")]
    assert kept.lines == 3


def test_a_file_that_is_mostly_free_is_made_small_at_a_start(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(path)
    store.commit(batch(elements=[added(eid, b"<mail>" + b"x" * 900 + b"</mail>") for eid in range(1, 1001)]))
    store.commit(batch(forgotten_elements=list(range(1, 901))))
    store.close()
    full = path.stat().st_size
    open_store(path).close()
    assert path.stat().st_size == full
    monkeypatch.setattr(sqlite, "WORTH_SHRINKING", 100_000)
    with open_store(path) as store:
        assert [kept.element.eid for kept in store.of().elements()] == list(range(901, 1001))
    assert path.stat().st_size < full / 4


def test_a_log_that_a_large_turn_made_long_is_cut_back(path: Path) -> None:
    log = path.with_name("store.db-wal")
    with open_store(path) as store:
        store.commit(batch(elements=[added(1, b"<mail>" + b"x" * 40_000_000 + b"</mail>")]))
        assert log.stat().st_size > 40_000_000
        for eid in range(2, 6):
            store.commit(batch(elements=[added(eid)]))
        assert log.stat().st_size <= 16 * 1024 * 1024


def test_paths_with_odd_characters_are_paths(tmp_path: Path) -> None:
    odd = tmp_path / "a b?c#d%e" / "störe.db"
    odd.parent.mkdir()
    with open_store(odd) as store:
        store.commit(batch(elements=[added(1)]))
    assert odd.exists()
    assert os.listdir(odd.parent) == ["störe.db"]

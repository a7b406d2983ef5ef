"""A commit is all or nothing."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from narval.core.engines.events import TimerFired
from narval.core.errors import RefusedRowsError, StoreError
from narval.store import sqlite
from narval.store.batch import Advance, Batch
from narval.store.open import open_store
from tests.store.stores import added, batch, content, entry, reopened, running


def test_N35_a_batch_that_fails_leaves_nothing_and_is_the_last(path: Path) -> None:
    store = open_store(path)
    store.commit(batch(elements=[added(1)], runs=[running(9)]))
    before = content(store)
    store.writer.execute("PRAGMA max_page_count=1")  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match="nothing of this turn was performed") as failure:
        store.commit(batch(elements=[added(2), added(3, b"<e>" + bytes(100_000) + b"</e>")]))
    assert not isinstance(failure.value, RefusedRowsError)
    assert content(store) == before
    with pytest.raises(StoreError, match="no turn is recorded after one that could not be"):
        store.commit(batch(elements=[added(2)]))
    store = reopened(store, path)
    assert content(store) == before
    store.commit(batch(elements=[added(2)]))
    store.close()


def test_batches_of_several_agents_are_recorded_as_one_by_one(path: Path, tmp_path: Path) -> None:
    rows = [{"elements": [added(1), added(2)], "runs": [running(9)], "journal": [entry(9, 1)]}, {}]
    rows.append({"elements": [added(1)], "outdated": [1], "moments_done": ["1"]})
    batches = [Batch(agent, **fields) for agent, fields in enumerate(rows, 1)]
    together, one_by_one = open_store(path), open_store(tmp_path / "other.db")
    together.commit(*batches)
    for each in batches:
        one_by_one.commit(each)
    for each in batches:
        assert content(together, each.agent) == content(one_by_one, each.agent)
    together.close()
    one_by_one.close()


def test_G17_a_batch_that_is_refused_leaves_nothing_and_the_next_is_taken(path: Path) -> None:
    store = open_store(path)
    store.commit(batch(elements=[added(1)], runs=[running(9)]))
    before = content(store)
    for rows in (
        {"elements": [added(2), added(1)], "journal": [entry(9, 1)], "keys": [("a", "b", "c")]},
        {"elements": [added(1)]},
        {"dequeued": [2**63]},
        {"runs": [running(10, name="\ud800")]},
    ):
        with pytest.raises(RefusedRowsError, match=r"does not take .* nothing of this turn was performed"):
            store.commit(batch(**rows))
        assert content(store) == before
    store.commit(batch(elements=[added(2)]))
    store.close()


def test_what_cannot_be_encoded_fails_before_anything_is_written(path: Path) -> None:
    store = open_store(path)
    with pytest.raises(RefusedRowsError):
        store.commit(
            batch(elements=[added(1)], journal=[Advance(1, 1, TimerFired(1, 1.0, "w"), (object(),), ())])
        )
    store = reopened(store, path)
    assert list(store.of().elements()) == []
    store.close()


def test_a_log_that_has_its_length_beforehand_loses_nothing(path: Path) -> None:
    store, log = open_store(path, "power"), path.with_name(path.name + "-wal")
    store.commit(batch(elements=[added(1)]))
    store.make_room()
    length = log.stat().st_size
    assert length == sqlite.LOG_BYTES
    store.commit(batch(elements=[added(2)]))
    assert log.stat().st_size == length
    copies = path.parent / "copies"
    copies.mkdir()
    for each in (path, log):  # as it is found after the death of the machine
        shutil.copy(each, copies / each.name)
    with open_store(copies / path.name, "power") as found:
        assert [kept.element.eid for kept in found.of().elements()] == [1, 2]
    store.close()
    assert not log.exists()


def test_a_log_is_left_as_it_is_where_there_is_no_room_for_its_length(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    with open_store(path, "power") as store:
        store.commit(batch(elements=[added(1)]))
        length = path.with_name(path.name + "-wal").stat().st_size
        for written in (full, lambda *_: 100):
            monkeypatch.setattr(os, "pwrite", written)
            store.make_room()
            assert path.with_name(path.name + "-wal").stat().st_size == length
        store.commit(batch(elements=[added(2)]))


def test_a_closed_store_refuses_and_may_be_closed_again(path: Path) -> None:
    store = open_store(path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match=f"the store is closed: {path}"):
        store.commit(batch(elements=[added(1)]))


def test_readers_of_another_thread_see_whole_turns_only(path: Path) -> None:
    store = open_store(path, "power")
    has_read = threading.Event()

    def write() -> None:
        for turn in range(60):
            if turn == 30:
                has_read.wait()  # else it may be over before the other thread has its turn
            eids = range(turn * 5 + 1, turn * 5 + 6)
            store.commit(batch(elements=[added(eid) for eid in eids], journal=[entry(1, turn * 3 + 1)]))

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while writer.is_alive():
        count = len(list(store.of().elements()))
        assert count % 5 == 0
        seen.add(count)
        has_read.set()
    writer.join()
    assert len(list(store.of().elements())) == 300
    assert seen
    store.close()

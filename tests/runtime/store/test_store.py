"""The store: what is kept, all or nothing; what a crash, a full disk or a damaged file can and cannot do."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narval.engines.commands import CancelTimer, SetTimer
from narval.engines.events import TimerFired
from narval.errors import NarvalError, SettingsError, StoreError
from narval.memory.elements import changes
from narval.memory.elements.element import Element, Origin
from narval.runtime.store import sqlite
from narval.runtime.store.batch import (
    SLOTS,
    Advance,
    Batch,
    DefinitionRow,
    JournalRow,
    KeptElement,
    MomentRow,
    QueuedRow,
    RunRow,
    SnapshotRow,
)
from narval.runtime.store.codec import decode_entry, encode_entry
from narval.runtime.store.memory import VolatileStore
from narval.runtime.store.open import open_store
from narval.runtime.store.store import Store


class Moved(msgspec.Struct, frozen=True, tag=True):
    """A change, as an engine would have it."""

    step: str
    to: str


def added(
    eid: int, xml: bytes = b"<email/>", declared: str = "", origin: Origin | None = None
) -> changes.Added:
    return changes.Added(Element(eid, xml, 1_700_000_000.25, origin), declared)


def entry(run: int, seq: int, step: str = "s1") -> Advance:
    return Advance(
        run, seq, TimerFired(seq, seq + 0.5, "w"), (Moved(step, "done"),), (SetTimer("next", 9.0),)
    )


def running(eid: int, **fields: Any) -> RunRow:
    row = RunRow(eid, "plan", "mail.triage", "d1", "running", "active", 5.0)
    return row._replace(**fields)


def batch(**slots: list[Any]) -> Batch:
    filled = Batch()
    for slot, rows in slots.items():
        getattr(filled, slot).extend(rows)
    return filled


def content(store: Store) -> dict[str, Any]:
    """All that a store gives back."""
    return {
        "elements": [(*_plain(kept.element), kept.declared, kept.outdated) for kept in store.elements()],
        "contexts": list(store.contexts()),
        "marks": list(store.marks()),
        "keys": list(store.keys()),
        "runs": store.runs(),
        "journal": store.journal_all(),
        "journals": {row.eid: list(store.journal(row.eid)) for row in store.runs()},
        "snapshots": [store.snapshot(row.eid) for row in store.runs()],
        "queue": store.queue(),
        "moments": store.moments(),
        "definitions": store.definitions(None),
    }


def _plain(element: Element) -> tuple[Any, ...]:
    return element.eid, element.name, element.xml, element.added, element.origin


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def new_store(tmp_path: Path) -> Path:
    """A store with nothing in it, to be copied: copying is quicker than making."""
    open_store(tmp_path / "new.db").close()
    return tmp_path / "new.db"


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[Store]:
    """Both stores go through the same cases."""
    with open_store(path if request.param == "file" else None) as store:
        yield store


def reopened(store: Store, path: Path) -> Store:
    store.close()
    return open_store(path)


# --- what both stores keep ------------------------------------------------------------------------------


def test_entries_come_back_by_run_and_in_order(store: Store) -> None:
    store.commit(batch(journal=[entry(1, 1), entry(2, 4), entry(1, 7, "s2")]))
    store.commit(batch(journal=[entry(1, 10, "s3")]))

    def steps(run: int, after: int = 0) -> list[str]:
        entries = [decode_entry(row.data, Moved, lambda eid: None) for row in store.journal(run, after)]
        return [each.changes[0].step for each in entries]

    assert steps(1) == ["s1", "s2", "s3"]
    assert steps(1, after=1) == ["s2", "s3"]
    assert steps(2) == ["s1"]
    assert steps(3) == []
    expected = JournalRow(
        2, 4, 4.5, encode_entry(TimerFired(4, 4.5, "w"), [Moved("s1", "done")], [SetTimer("next", 9.0)])
    )
    assert next(store.journal(2)) == expected
    assert [(row.run, row.seq) for row in store.journal_all()] == [(1, 1), (2, 4), (1, 7), (1, 10)]
    assert [(row.run, row.seq) for row in store.journal_all(after=1, limit=2)] == [(2, 4), (1, 7)]


def test_a_run_is_kept_as_it_was_last(store: Store) -> None:
    store.commit(batch(runs=[running(1), running(2, kind="process", name="order")]))
    over = running(
        1, state="failed", phase="failed", ended=9.0, error=7, parent_run=2, parent_step="s", attempt=1
    )
    store.commit(batch(runs=[over]))

    assert store.run(1) == over
    assert store.run(3) is None
    assert [row.eid for row in store.runs()] == [1, 2]
    assert [row.eid for row in store.runs(phase="active")] == [2]
    assert [row.eid for row in store.runs(state="failed", kind="plan", name="mail.triage")] == [1]
    assert store.runs(kind="plan", name="order") == []


def test_the_last_snapshot_counts(store: Store) -> None:
    store.commit(batch(snapshots=[SnapshotRow(1, 5, b"old")]))
    store.commit(batch(snapshots=[SnapshotRow(1, 9, b"new")]))
    assert store.snapshot(1) == SnapshotRow(1, 9, b"new")
    assert store.snapshot(2) is None


def test_a_new_version_of_a_definition_takes_the_place_of_the_old_one(store: Store) -> None:
    old = DefinitionRow("d1", "recipe", "mail.triage", "recipes/mail.xml", b"<recipe/>", 1.0)
    other = DefinitionRow("d1", "recipe", "mail.digest", "recipes/mail.xml", b"<recipe/>", 1.0)
    new = old._replace(digest="d2", source=b"<recipe restart='yes'/>", loaded=2.0)
    store.commit(batch(definitions=[old, other], runs=[running(1, digest="d1")]))
    store.commit(batch(definitions=[new]))

    assert set(store.definitions()) == {new, other}
    assert store.definitions(current=False) == [old._replace(current=False)]
    assert len(store.definitions(None)) == 3
    assert store.definition("d2") == new
    assert store.definition("d3") is None
    assert sorted(store.stored_files("recipes/mail.xml")) == sorted([new.source, other.source])
    assert store.stored_files("recipes/other.xml") == []


def test_small_facts_are_kept(store: Store) -> None:
    store.commit(batch(meta=[("sequence", "100")]))
    store.commit(batch(meta=[("sequence", "200"), ("next_eid", "7")]))
    assert {key: store.meta[key] for key in ("sequence", "next_eid")} == {"sequence": "200", "next_eid": "7"}


def test_N5_a_forgotten_run_takes_its_journal_and_snapshot_along(store: Store) -> None:
    store.commit(
        batch(
            runs=[running(1), running(2)],
            journal=[entry(1, 1), entry(2, 4)],
            snapshots=[SnapshotRow(1, 1, b"a"), SnapshotRow(2, 4, b"b")],
        )
    )
    store.commit(batch(forgotten_runs=[1]))
    assert [row.eid for row in store.runs()] == [2]
    assert list(store.journal(1)) == []
    assert store.snapshot(1) is None
    assert [row.run for row in store.journal_all()] == [2]
    assert store.snapshot(2) is not None


def test_old_entries_of_a_run_are_dropped_and_the_last_are_kept(store: Store) -> None:
    store.commit(batch(runs=[running(1), running(2)], journal=[entry(1 + n % 2, n) for n in range(1, 21)]))
    store.commit(batch(trimmed=[(1, 20, 3)]))
    assert [row.seq for row in store.journal(1)] == [16, 18, 20]
    assert len(list(store.journal(2))) == 10
    store.commit(batch(trimmed=[(1, 20, 3), (2, 20, 100)]))
    assert [row.seq for row in store.journal(1)] == [16, 18, 20]
    assert len(list(store.journal(2))) == 10


def test_no_entry_behind_the_line_is_dropped(store: Store) -> None:
    store.commit(batch(runs=[running(1)], journal=[entry(1, n) for n in range(1, 11)]))
    store.commit(batch(trimmed=[(1, 4, 1)]))
    assert [row.seq for row in store.journal(1)] == [5, 6, 7, 8, 9, 10]


def test_several_batches_are_one_commit(store: Store) -> None:
    store.commit(
        batch(journal=[entry(1, 1)], runs=[running(1)]), Batch(), batch(runs=[running(1, state="end")])
    )
    assert store.runs() == [running(1, state="end")]
    assert len(store.journal_all()) == 1


# --- a batch --------------------------------------------------------------------------------------------


def test_a_batch_knows_whether_it_is_empty() -> None:
    for slot in SLOTS:
        filled = Batch()
        assert not filled
        getattr(filled, slot).append(1)
        assert filled


def test_each_change_of_memory_has_its_slot() -> None:
    filled = Batch()
    new = added(3)
    for change in (
        new,
        changes.Held(9, (3, 4)),
        changes.Unheld(9, (4,)),
        changes.Used(("mail.triage", "s1", "in"), (3,)),
        changes.Reserved((5,)),
        changes.Released((5,)),
        changes.Outdated((4,)),
        changes.Keyed("email", "@id", "x"),
        changes.Undeclared((2,)),
        changes.Forgotten((1,), (8,)),
    ):
        filled.record(change)
    assert filled.elements == [new]
    assert filled.held == [(9, 3), (9, 4)]
    assert filled.unheld == [(9, 4)]
    assert filled.marks == [("mail.triage", "s1", "in", 3)]
    assert filled.outdated == [4]
    assert filled.keys == [("email", "@id", "x")]
    assert filled.undeclared == [2]
    assert (filled.forgotten_elements, filled.forgotten_runs) == ([1], [8])


# --- what is there again after a stop -------------------------------------------------------------------


def test_N8_an_element_comes_back_with_name_origin_and_declaration(path: Path) -> None:
    origin = Origin(2, "s1", "2.1", (1,))
    store = open_store(path)
    store.commit(
        batch(
            elements=[
                added(1, b"<email subject='Hi'/>", "memory.xml"),
                added(2, b"<a:x xmlns:a='urn:a'/>", origin=origin),
                added(3),
            ],
            outdated=[3],
        )
    )
    store = reopened(store, path)
    kept = list(store.elements())
    assert [(each.element.eid, each.element.name) for each in kept] == [
        (1, "email"),
        (2, "{urn:a}x"),
        (3, "email"),
    ]
    assert kept[0] == KeptElement(Element(1, b"<email subject='Hi'/>"), "memory.xml", False)
    assert kept[0].element.added == 1_700_000_000.25
    assert [each.element.origin for each in kept] == [None, origin, None]
    assert [each.outdated for each in kept] == [False, False, True]
    store.close()


def test_N4_what_is_not_declared_any_more_loses_its_protection_for_good(path: Path) -> None:
    store = open_store(path)
    store.commit(batch(elements=[added(1, declared="memory.xml"), added(2, declared="library")]))
    store.commit(batch(undeclared=[1]))
    store = reopened(store, path)
    assert [kept.declared for kept in store.elements()] == ["", "library"]
    store.close()


def test_N3_contexts_come_back_whoever_made_the_element(path: Path) -> None:
    store = open_store(path)
    store.commit(
        batch(runs=[running(10), running(11)], elements=[added(1)], held=[(10, 1), (11, 1), (10, 1)])
    )
    store.commit(batch(elements=[added(2), added(3)], held=[(11, 2), (11, 1), (10, 3), (10, 11)]))
    expected = [(10, 1), (10, 3), (10, 11), (11, 1), (11, 2)]
    assert list(store.contexts()) == expected
    store = reopened(store, path)
    assert list(store.contexts()) == expected
    store.close()


def test_N5_what_is_forgotten_is_in_no_context(path: Path) -> None:
    store = open_store(path)
    store.commit(
        batch(
            runs=[running(10), running(11)],
            elements=[added(1), added(2), added(3)],
            held=[(10, 1), (10, 2), (11, 1), (11, 3), (11, 10)],
        )
    )
    store.commit(batch(forgotten_runs=[10], forgotten_elements=[2]))
    assert list(store.contexts()) == [(11, 1), (11, 3)]
    store.commit(batch(forgotten_elements=[3]))
    assert list(store.contexts()) == [(11, 1)]
    assert [kept.element.eid for kept in store.elements()] == [1]
    store.close()


def test_N18_marks_outlive_runs_and_go_with_their_element(path: Path) -> None:
    store = open_store(path)
    first, second = ("mail.triage", "s1", "in", 1), ("mail.triage", "t1", "0", 2)
    store.commit(batch(runs=[running(10)], elements=[added(1), added(2)], marks=[first, second, first]))
    store.commit(batch(forgotten_runs=[10], marks=[first]))
    store = reopened(store, path)
    assert list(store.marks()) == [first, second]
    store.commit(batch(forgotten_elements=[1]))
    assert list(store.marks()) == [second]
    store.close()


def test_N37_keys_outlive_forgetting(path: Path) -> None:
    store = open_store(path)
    store.commit(batch(elements=[added(1)], keys=[("email", "@id", "x")]))
    store.commit(batch(forgotten_elements=[1], keys=[("email", "@id", "x")]))
    store = reopened(store, path)
    assert set(store.keys()) == {("email", "@id", "x")}
    assert ("email", "@id", "x") in set(store.keys())
    store.close()


def test_N35_what_waits_is_there_again(path: Path) -> None:
    store = open_store(path)
    store.commit(
        batch(
            queued=[QueuedRow(3, 1, b"c"), QueuedRow(2, 1, b"b")],
            moments=[MomentRow("7", 9.0, b"late"), MomentRow("8", 3.0, b"soon")],
        )
    )
    store.commit(batch(dequeued=[2], moments_done=["7"], moments=[MomentRow("9", 1.0, b"next")]))
    store = reopened(store, path)
    assert store.queue() == [QueuedRow(3, 1, b"c")]
    assert store.moments() == [MomentRow("9", 1.0, b"next"), MomentRow("8", 3.0, b"soon")]
    store.close()


def test_versions_that_no_run_needs_are_dropped_at_the_next_start(path: Path) -> None:
    store = open_store(path)
    old, needed, new = (
        DefinitionRow(digest, "recipe", "mail.triage", "recipes/mail.xml", b"", loaded)
        for loaded, digest in enumerate(["d1", "d2", "d3"])
    )
    for row in (old, needed, new):
        store.commit(batch(definitions=[row]))
    store.commit(batch(runs=[running(1, digest="d2", state="done", phase="done")]))
    store = reopened(store, path)
    assert store.definitions(None) == [needed._replace(current=False), new]
    store.close()


_eids = st.integers(1, 30)
_runs = st.integers(31, 36)
_slots = st.fixed_dictionaries(
    {},
    optional={
        "outdated": st.lists(_eids, max_size=2),
        "held": st.lists(st.tuples(_runs, _eids), max_size=4),
        "marks": st.lists(
            st.tuples(st.sampled_from(["a", "b"]), st.just("s"), st.just("i"), _eids), max_size=3
        ),
        "unheld": st.lists(st.tuples(_runs, _eids), max_size=2),
        "keys": st.lists(st.tuples(st.just("n"), st.just("@x"), st.text(max_size=3)), max_size=3),
        "forgotten_elements": st.lists(_eids, max_size=2, unique=True),
        "forgotten_runs": st.lists(_runs, max_size=1),
        "new_elements": st.integers(0, 3),
        "new_runs": st.lists(_runs, max_size=2),
        "reopen": st.booleans(),
    },
)


class Model:
    """What the store promises to keep, said with sets."""

    def __init__(self) -> None:
        self.elements: dict[int, bool] = {}
        self.runs: set[int] = set()
        self.held: set[tuple[int, int]] = set()
        self.marks: set[tuple[str, str, str, int]] = set()
        self.keys: set[tuple[str, str, str]] = set()

    def apply(self, filled: Batch) -> None:
        self.elements.update((each.element.eid, False) for each in filled.elements)
        self.elements.update((eid, True) for eid in filled.outdated if eid in self.elements)
        self.runs.update(row.eid for row in filled.runs)
        self.held.update(filled.held)
        self.held -= set(filled.unheld)
        self.marks.update(filled.marks)
        self.keys.update(filled.keys)
        for eid in filled.forgotten_elements:
            self.elements.pop(eid, None)
        self.marks = {mark for mark in self.marks if mark[3] not in filled.forgotten_elements}
        self.runs -= set(filled.forgotten_runs)
        self.held = {(run, eid) for run, eid in self.held if run not in filled.forgotten_runs}
        self.held = {(run, eid) for run, eid in self.held if eid not in filled.forgotten_elements}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(_slots, max_size=8))
def test_the_store_keeps_what_a_model_of_sets_keeps(new_store: Path, turns: list[dict[str, Any]]) -> None:
    path = Path(shutil.copy(new_store, new_store.with_name("model.db")))
    store, model, last = open_store(path), Model(), 0
    for turn in turns:
        reopen = turn.pop("reopen", False)
        filled = batch(runs=[running(run) for run in turn.pop("new_runs", [])])
        for _ in range(turn.pop("new_elements", 0)):
            last += 1
            filled.elements.append(added(last))
        for slot, rows in turn.items():
            getattr(filled, slot).extend(rows)
        # As the loop has it: runs that are there hold elements that are there.
        runs = model.runs | {row.eid for row in filled.runs}
        elements = set(model.elements) | {each.element.eid for each in filled.elements}
        filled.held = [(run, eid) for run, eid in filled.held if run in runs and eid in elements]
        store.commit(filled)
        model.apply(filled)
        if reopen:
            store = reopened(store, path)
    assert {kept.element.eid: kept.outdated for kept in store.elements()} == model.elements
    assert {row.eid for row in store.runs()} == model.runs
    assert sorted(store.contexts()) == sorted(model.held)
    assert set(store.marks()) == model.marks
    assert set(store.keys()) == model.keys
    store.close()


# --- all or nothing -------------------------------------------------------------------------------------


def test_N35_a_batch_that_fails_leaves_nothing_and_is_the_last(path: Path) -> None:
    store = open_store(path)
    store.commit(batch(elements=[added(1)], runs=[running(9)]))
    before = content(store)
    with pytest.raises(StoreError, match="nothing of this turn was performed"):
        store.commit(batch(elements=[added(2), added(1)], journal=[entry(9, 1)], keys=[("a", "b", "c")]))
    assert content(store) == before
    with pytest.raises(StoreError, match="no turn is recorded after one that could not be"):
        store.commit(batch(elements=[added(2)]))
    store = reopened(store, path)
    assert content(store) == before
    store.commit(batch(elements=[added(2)]))
    store.close()


def test_what_cannot_be_encoded_fails_before_anything_is_written(path: Path) -> None:
    store = open_store(path)
    with pytest.raises(TypeError):
        store.commit(
            batch(elements=[added(1)], journal=[Advance(1, 1, TimerFired(1, 1.0, "w"), (object(),), ())])
        )
    store = reopened(store, path)
    assert list(store.elements()) == []
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
        assert [kept.element.eid for kept in found.elements()] == [1, 2]
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

    def write() -> None:
        for turn in range(60):
            eids = range(turn * 5 + 1, turn * 5 + 6)
            store.commit(batch(elements=[added(eid) for eid in eids], journal=[entry(1, turn * 3 + 1)]))

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while writer.is_alive():
        count = len(list(store.elements()))
        assert count % 5 == 0
        seen.add(count)
    writer.join()
    assert len(list(store.elements())) == 300
    assert seen
    store.close()


# --- crashes --------------------------------------------------------------------------------------------

HARNESS = """
import os, random, resource, signal, sys
from pathlib import Path
from narval.engines.events import TimerFired
from narval.errors import StoreError
from narval.memory.elements.changes import Added
from narval.memory.elements.element import Element, Origin
from narval.runtime.store.batch import Advance, Batch, RunRow
from narval.runtime.store.open import open_store

def turn(number, size=1):
    '''A turn that touches many tables, and can be checked to be whole.'''
    batch = Batch()
    for at in range(size):
        eid = number * size + at + 1
        batch.elements.append(Added(Element(eid, b'<e>' + b'x' * 200 + b'</e>', 1.0, Origin(1, 's'))))
        batch.held += [(1, eid), (2, eid)]
    batch.runs.append(RunRow(1, 'plan', 'a', 'd', str(number), 'active', 1.0))
    batch.runs.append(RunRow(2, 'plan', 'a', 'd', str(number), 'active', 1.0))
    batch.journal.append(Advance(1, number + 1, TimerFired(number, 1.0, 'w'), (), ()))
    return batch

def child(work):
    '''Run work in a program of its own that is not waited upon politely; its exit status.'''
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(f'{type(error).__name__}: {error}', flush=True)
            os._exit(7)
    return pid
"""


def harness(program: str, *arguments: object) -> str:
    """What a program of its own prints; it may fork, limit and kill itself as it likes."""
    done = subprocess.run(
        [sys.executable, "-c", HARNESS + textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def whole_turns(path: Path, size: int = 1) -> int:
    """How many turns the store has; fails if any of them is there in part."""
    with open_store(path) as store:
        elements, journal = list(store.elements()), store.journal_all(limit=10**9)
        turns = len(journal)
        assert [kept.element.eid for kept in elements] == list(range(1, turns * size + 1))
        expected = [(run, eid) for run in (1, 2) for eid in range(1, turns * size + 1)]
        assert list(store.contexts()) == (expected if turns else [])
        assert [row.state for row in store.runs()] == ([str(turns - 1)] * 2 if turns else [])
    return turns


def test_N35_killed_before_any_statement_a_turn_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    said = harness(
        """
        import shutil
        folder = Path(sys.argv[1])
        open_store(folder / 'new.db').close()
        for statement in range(1, 20):
            def work():
                store = open_store(shutil.copy(folder / 'new.db', folder / f'{statement}.db'))
                left = [statement]
                def trace(sql):
                    left[0] -= 1
                    if not left[0]:
                        os.kill(os.getpid(), signal.SIGKILL)
                store._writer.set_trace_callback(trace)
                for number in range(2):
                    store.commit(turn(number))
                    print(statement, number + 1, flush=True)
            os.waitpid(child(work), 0)
        """,
        tmp_path,
    )
    confirmed = dict.fromkeys(range(1, 20), 0)
    confirmed.update((int(statement), int(turns)) for statement, turns in map(str.split, said.splitlines()))
    kept = {statement: whole_turns(tmp_path / f"{statement}.db") for statement in confirmed}
    assert kept == confirmed
    assert set(kept.values()) == {0, 1, 2}


def test_N35_killed_at_any_moment_nothing_confirmed_is_lost(path: Path) -> None:
    size, confirmed = 10, 0
    for _ in range(2):
        said = harness(
            """
            path, size, rounds = Path(sys.argv[1]), int(sys.argv[2]), 6
            for round in range(rounds):
                reader, writer = os.pipe()
                def work():
                    store = open_store(path)
                    number = len(store.journal_all(limit=10**9))
                    while True:
                        store.commit(turn(number, size))
                        number += 1
                        os.write(writer, number.to_bytes(4))
                pid = child(work)
                os.close(writer)
                told = os.read(reader, 4)
                import time
                time.sleep(random.uniform(0.0, 0.02))
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                while more := os.read(reader, 1 << 16):
                    told += more
                os.close(reader)
            print(int.from_bytes(told[-4:]))
            """,
            path,
            size,
        )
        turns = whole_turns(path, size)
        assert confirmed < int(said) <= turns <= int(said) + 1
        confirmed = turns


def test_N35_killed_while_it_is_made_a_store_is_made_anew(path: Path) -> None:
    for remains in ("store.db.new", "store.db.new-wal", "store.db.new-journal"):
        (path.parent / remains).write_bytes(b"half of a store")
    with open_store(path) as store:
        store.commit(batch(elements=[added(1)]))
    assert sorted(each.name for each in path.parent.iterdir()) == ["store.db"]


def test_N35_a_torn_end_of_the_log_loses_only_what_was_being_written(path: Path, tmp_path: Path) -> None:
    store = open_store(path)
    lengths = []
    for number in range(5):
        store.commit(
            batch(
                elements=[added(number + 1)],
                journal=[entry(1, number * 3 + 1)],
                runs=[running(1, state=str(number))],
            )
        )
        lengths.append((path.parent / "store.db-wal").stat().st_size)
    for turns, length in enumerate(lengths):
        torn = tmp_path / f"torn-{turns}"
        torn.mkdir()
        shutil.copy(path, torn / "store.db")
        log = (path.parent / "store.db-wal").read_bytes()
        (torn / "store.db-wal").write_bytes(log[: length - 100])
        with open_store(torn / "store.db") as other:
            assert len(list(other.elements())) == len(other.journal_all()) == turns
            assert [row.state for row in other.runs()] == [str(turns - 1)][: turns and 1]
    store.close()


def test_the_file_is_looked_through_after_a_stop_that_was_not_clean(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from narval.runtime.store import sqlite

    looked: list[Path] = []
    monkeypatch.setattr(sqlite, "quick_check", lambda connection, file: looked.append(file))
    open_store(path).close()
    open_store(path).close()
    assert looked == []
    harness("store = open_store(Path(sys.argv[1])); store.commit(turn(0)); os._exit(0)", path)
    open_store(path).close()
    assert looked == [path]


# --- disks that are full, closed or taken -----------------------------------------------------------------


def test_a_full_disk_stops_with_a_clear_message_and_loses_nothing(path: Path) -> None:
    store = open_store(path)
    store.commit(batch(elements=[added(1)]))
    store._writer.execute("PRAGMA max_page_count=60")  # type: ignore[attr-defined]
    before = content(store)

    def fill_up() -> None:
        for number in range(2, 1000):
            large = added(number, b"<e>" + b"x" * 3000 + b"</e>")
            store.commit(batch(elements=[large], journal=[entry(1, number)]))
            before.update(content(store))

    with pytest.raises(StoreError, match="the disk is full") as raised:
        fill_up()
    for part in (str(path), "nothing of this turn was performed", "free space and start again"):
        assert part in str(raised.value)
    assert len(before["elements"]) > 1
    assert content(store) == before
    store = reopened(store, path)
    assert content(store) == before
    store.commit(batch(elements=[added(5000)]))
    store.close()


def test_a_limit_on_files_stops_with_a_clear_message_and_loses_nothing(path: Path) -> None:
    said = harness(
        """
        def work():
            store = open_store(Path(sys.argv[1]))
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
            for number in range(1000):
                store.commit(turn(number, 5))
                print(number + 1, flush=True)
        _, status = os.waitpid(child(work), 0)
        assert os.waitstatus_to_exitcode(status) == 7
        """,
        path,
    )
    *confirmed, last = said.splitlines()
    assert last.startswith("StoreError: the disk failed")
    assert str(path) in last
    assert "nothing of this turn was performed" in last
    assert "start again" in last
    assert whole_turns(path, 5) == int(confirmed[-1]) > 0


def test_no_room_for_a_new_store_is_said_and_leaves_nothing_half_made(path: Path) -> None:
    said = harness(
        """
        def work():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
            open_store(Path(sys.argv[1]))
        os.waitpid(child(work), 0)
        """,
        path,
    )
    assert said.startswith("StoreError: the disk failed")
    assert not path.exists()
    open_store(path).close()


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder that every user of the machine may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


READ_ONLY = """
path = Path(sys.argv[1])
open_store(sys.argv[2]).close()  # what is imported late may be out of reach of the other user
def work():
    for each in path.parent.iterdir():
        each.chmod(0o444)
    path.parent.chmod(0o555)
    if os.getuid() == 0:
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    open_store(path)
_, status = os.waitpid(child(work), 0)
assert os.waitstatus_to_exitcode(status) == 7
"""


def test_a_folder_one_may_not_write_in_is_said_for_a_new_store(common: Path, tmp_path: Path) -> None:
    path = common / "store.db"
    said = harness(READ_ONLY, path, tmp_path / "other.db")
    assert said.startswith("StoreError: ")
    assert str(path) in said
    assert "Permission denied" in said


def test_a_folder_one_may_not_write_in_is_said_for_an_old_store(common: Path, tmp_path: Path) -> None:
    path = common / "store.db"
    open_store(path).close()
    said = harness(READ_ONLY, path, tmp_path / "other.db")
    assert said.startswith("StoreError: the store ")
    assert str(path) in said
    assert "written" in said


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file or directory"):
        open_store(tmp_path / "nowhere" / "store.db")


def test_a_store_that_another_program_holds_locked_is_said_and_loses_nothing(path: Path) -> None:
    store = open_store(path, patience=0.02)
    store.commit(batch(elements=[added(1)]))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another program holds the store locked") as raised:
        store.commit(batch(elements=[added(2)]))
    assert "nothing of this turn was performed" in str(raised.value)
    store.close()
    with pytest.raises(StoreError, match=f"another program holds the store locked: {path}"):
        open_store(path, patience=0.02)
    other.execute("ROLLBACK")
    other.close()
    with open_store(path) as again:
        assert [kept.element.eid for kept in again.elements()] == [1]


# --- damage -----------------------------------------------------------------------------------------------


def filled_store(path: Path, *, clean: bool) -> dict[str, Any]:
    """A store with something in every table; its content."""
    source = path if clean else path.with_name("open.db")
    store = open_store(source)
    for number in range(60):
        store.commit(
            batch(
                elements=[added(number + 1, b"<e>" + str(number).encode() * 100 + b"</e>")],
                runs=[running(1000 + number % 7)],
                held=[(1000 + number % 7, number + 1), (1000, number // 2 + 1)],
                marks=[("a", "s", str(number), number + 1)],
                keys=[("n", "@x", str(number) * 5)],
                journal=[entry(1000 + number % 7, number * 3 + 1)],
                snapshots=[SnapshotRow(1000 + number % 7, number, b"state" * 20)],
                queued=[QueuedRow(number + 1, 1000, b"event")],
                moments=[MomentRow(str(number), float(number), b"deed")],
                definitions=[DefinitionRow(f"d{number}", "recipe", f"r{number}", "p", b"<recipe/>" * 9, 1.0)],
            )
        )
    kept = content(store)
    if not clean:
        store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # type: ignore[attr-defined]
        shutil.copy(source, path)
    store.close()
    return kept


def read_all(path: Path) -> dict[str, Any]:
    with open_store(path) as store:
        return content(store)


PAGE = 2048


@pytest.mark.parametrize("fill", [b"\0" * PAGE, b"\xff" * PAGE, bytes(range(256)) * (PAGE // 256)])
@pytest.mark.parametrize("clean", [True, False])
def test_no_damaged_page_is_passed_over_in_silence(path: Path, clean: bool, fill: bytes) -> None:
    kept = filled_store(path, clean=clean)
    assert read_all(path) == kept
    if clean:
        kept = read_all(path)
    sound = path.read_bytes()
    refusals = 0
    for page in range(len(sound) // PAGE):
        path.write_bytes(sound[: page * PAGE] + fill + sound[(page + 1) * PAGE :])
        for beside in ("-wal", "-shm"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        refusal = refused(path, kept)
        if refusal:
            refusals += 1
            assert str(path) in refusal
            assert "damaged" in refusal
    assert refusals >= len(sound) // PAGE - 3  # all but the three indexes of texts, which nobody read


def refused(path: Path, kept: dict[str, Any]) -> str:
    """Why a store cannot be read; empty when it can, and then it has all it had."""
    try:
        found = read_all(path)
    except StoreError as error:
        return str(error)
    assert found == kept
    return ""


@pytest.mark.parametrize("left", [0, 1, 100, 5000])
def test_a_file_cut_short_is_refused_by_name(path: Path, left: int) -> None:
    filled_store(path, clean=True)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(StoreError, match="damaged") as raised:
        read_all(path)
    assert str(path) in str(raised.value)


def test_a_log_whose_store_is_gone_is_refused(path: Path) -> None:
    path.with_name("store.db-wal").write_bytes(b"what was committed last")
    with pytest.raises(StoreError, match=r"is gone, but store\.db-wal is there"):
        open_store(path)
    assert path.with_name("store.db-wal").read_bytes() == b"what was committed last"


def test_an_entry_that_cannot_be_read_is_refused(path: Path) -> None:
    store = open_store(path)
    store.commit(batch(journal=[entry(1, 1)]))
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE journal SET data = x'c1'")
    other.close()
    with open_store(path) as store, pytest.raises(StoreError, match="an entry of the journal cannot be read"):
        decode_entry(next(store.journal(1)).data, Moved, lambda eid: None)


# --- versions ---------------------------------------------------------------------------------------------


def schema(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    found = {
        " ".join(sql.split())
        for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql <> ''")
    }
    connection.close()
    return found


def test_migrating_from_nothing_gives_the_schema_of_a_new_store(path: Path, tmp_path: Path) -> None:
    from narval.runtime.store import migrate

    open_store(path).close()
    migrated = tmp_path / "migrated.db"
    migrate.migrate(sqlite.File(migrated, "crash", 1.0).engine(), "migrated")
    assert schema(migrated) == schema(path)
    assert len(schema(path)) > 10
    connection = sqlite3.connect(migrated)
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]
    connection.close()


def test_alembic_finds_nothing_to_add_to_the_tables(path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from narval.runtime.store import tables

    open_store(path).close()
    with sqlite.File(path, "crash", 1.0).engine().connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []


def test_the_last_migration_is_the_version_of_the_tables() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    from narval.runtime.store import migrate, statements

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
        store.commit(turn(len(store.runs())))
        print('sqlalchemy' in sys.modules)
        """
    assert harness(program, path) == "False\n"
    assert harness(program, path) == "False\n"


def test_what_is_written_down_for_sqlite_are_the_statements_of_the_tables() -> None:
    from sqlalchemy.dialects.sqlite import dialect

    from narval.runtime.store import statements, tables

    of_tables = {name: " ".join(text.split()) for name, text in tables.statements(dialect()).items()}
    written = {name: " ".join(text.split()) for name, text in statements.of_sqlite().items()}
    assert written == of_tables, "python -m narval.runtime.store.tables writes them anew"
    assert {name for _, name, _ in statements.WRITES} <= set(written)


SECOND = """
from alembic import op
import sqlalchemy as sa
revision, down_revision = "0002", "0001"
def upgrade():
    with op.batch_alter_table("runs") as table:
        table.add_column(sa.Column("colour", sa.Text))
    {then}
"""


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A narval that has one migration more, which ends with the given statement."""
    from narval.runtime.store import migrate, statements

    def become(then: str) -> None:
        folder = tmp_path / "migrations"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(Path(migrate.__file__).parent / "migrations", folder)
        (folder / "versions" / "v0002.py").write_text(SECOND.format(then=then))
        monkeypatch.setattr(migrate, "MIGRATIONS", folder)
        monkeypatch.setattr(statements, "HEAD", "0002")

    return become


def test_an_older_store_is_brought_up_to_date_with_all_it_has(
    path: Path, next_version: Callable[[str], None]
) -> None:
    kept = filled_store(path, clean=True)
    next_version("pass")
    store = open_store(path)
    assert store.runs() == kept["runs"]
    assert any("colour" in sql for sql in schema(path))
    assert [kept.element.eid for kept in store.elements()] == list(range(1, 61))
    store.close()


def test_a_migration_that_fails_changes_nothing(path: Path, next_version: Callable[[str], None]) -> None:
    kept = filled_store(path, clean=True)
    before = schema(path)
    next_version("op.execute('INSERT INTO nowhere VALUES (1)')")
    with pytest.raises(StoreError, match="nowhere"):
        open_store(path)
    assert schema(path) == before
    from narval.runtime.store import statements

    statements.HEAD = "0001"  # restored by the fixture
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


# --- settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("durability", "synchronous"), [("crash", 1), ("power", 2)])
def test_durability_decides_what_a_commit_waits_for(path: Path, durability: Any, synchronous: int) -> None:
    with open_store(path, durability) as store:
        connection = store._writer  # type: ignore[attr-defined]
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
        assert len(list(store.elements())) == 1


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("sqlite://", "expected the URL of a file"),
        ("sqlite:///:memory:", "expected the URL of a file"),
        ("://", "expected a path or a database URL"),
        ("nosuch://somewhere/store", "the store failed"),
        ("mysql+pymysql://somewhere/store", "the store failed"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused(where: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        open_store(where)


def test_none_is_a_store_in_memory() -> None:
    store = open_store(None)
    assert isinstance(store, VolatileStore)
    assert list(store.elements()) == list(store.contexts()) == list(store.marks()) == list(store.keys()) == []
    assert store.queue() == store.moments() == []
    assert store.meta == {}


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
        assert [kept.element.eid for kept in backup.elements()] == [1]
        assert len(backup.journal_all()) == 1


def test_tables_and_statements_can_be_written_for_postgresql() -> None:
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.schema import CreateTable

    from narval.runtime.store import statements, tables

    dialect = postgresql.dialect(paramstyle="format")
    for table in tables.metadata.sorted_tables:
        assert str(CreateTable(table).compile(dialect=dialect)).strip().startswith("CREATE TABLE")
    written = tables.statements(dialect)
    assert "ON CONFLICT (eid) DO UPDATE SET" in written["put run"]
    assert written["add entry"].count("%s") == 4
    assert set(written) == set(statements.of_sqlite())
    assert tuple(dict.fromkeys(slot for slot, _, _ in statements.WRITES)) == SLOTS


def test_a_database_that_is_not_known_is_refused() -> None:
    from sqlalchemy.dialects import mysql

    from narval.runtime.store import tables

    with pytest.raises(NarvalError, match="expected a store on sqlite or postgresql, got: mysql"):
        tables.statements(mysql.dialect())


def test_a_million_and_one_is_read_as_it_comes(path: Path) -> None:
    """Readers for the start give rows as they are wanted: a stop in the middle harms nothing."""
    with open_store(path) as store:
        store.commit(batch(elements=[added(number) for number in range(1, 3001)]))
        some = store.elements()
        assert next(some).element.eid == 1
        store.commit(batch(elements=[added(3001)]))
        assert sum(1 for _ in some) == 2999
        assert len(list(store.elements())) == 3001


def test_the_commands_of_an_entry_are_in_it(path: Path) -> None:
    with open_store(path) as store:
        wished = (SetTimer("a", 2.0), CancelTimer("a"))
        store.commit(batch(journal=[Advance(1, 1, TimerFired(1, 1.0, "w"), (), wished)]))
        kept = decode_entry(next(store.journal(1)).data, Moved, lambda eid: None)
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
        assert [kept.element.eid for kept in store.elements()] == list(range(901, 1001))
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

"""A store opened again has what was committed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narval.core.elements.element import Element, Origin
from narval.store.batch import Batch, DefinitionRow, KeptElement, MarkRow, MomentRow, QueuedRow, WithdrawalRow
from narval.store.open import open_store
from tests.examples import examples
from tests.store.stores import added, batch, reopened, running


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
    kept = list(store.of().elements())
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
    assert [kept.declared for kept in store.of().elements()] == ["", "library"]
    store.close()


def test_N3_contexts_come_back_whoever_made_the_element(path: Path) -> None:
    store = open_store(path)
    store.commit(
        batch(runs=[running(10), running(11)], elements=[added(1)], held=[(10, 1), (11, 1), (10, 1)])
    )
    store.commit(batch(elements=[added(2), added(3)], held=[(11, 2), (11, 1), (10, 3), (10, 11)]))
    expected = [(10, 1), (10, 3), (10, 11), (11, 1), (11, 2)]
    assert list(store.of().contexts()) == expected
    store = reopened(store, path)
    assert list(store.of().contexts()) == expected
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
    assert list(store.of().contexts()) == [(11, 1), (11, 3)]
    store.commit(batch(forgotten_elements=[3]))
    assert list(store.of().contexts()) == [(11, 1)]
    assert [kept.element.eid for kept in store.of().elements()] == [1]
    store.close()


def test_N18_marks_outlive_runs_and_go_with_their_element(path: Path) -> None:
    store = open_store(path)
    first, second = MarkRow("mail.triage", "s1", "in", 1, 10), MarkRow("mail.triage", "t1", "0", 2)
    store.commit(batch(runs=[running(10)], elements=[added(1), added(2)], marks=[first, second, first]))
    store.commit(batch(forgotten_runs=[10], marks=[first]))
    store = reopened(store, path)
    assert list(store.of().marks()) == [first, second]
    store.commit(batch(forgotten_elements=[1]))
    assert list(store.of().marks()) == [second]
    store.close()


def test_N37_keys_outlive_forgetting(path: Path) -> None:
    store = open_store(path)
    store.commit(batch(elements=[added(1)], keys=[("email", "@id", "x")]))
    store.commit(batch(forgotten_elements=[1], keys=[("email", "@id", "x")]))
    store = reopened(store, path)
    assert set(store.of().keys()) == {("email", "@id", "x")}
    assert ("email", "@id", "x") in set(store.of().keys())
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
    assert store.of().queue() == [QueuedRow(3, 1, b"c")]
    assert store.of().moments() == [MomentRow("9", 1.0, b"next"), MomentRow("8", 3.0, b"soon")]
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
    assert store.of().definitions(None) == [needed._replace(current=False), new]
    store.close()


_eids = st.integers(1, 30)
_runs = st.integers(31, 36)
_slots = st.fixed_dictionaries(
    {},
    optional={
        "outdated": st.lists(_eids, max_size=2),
        "held": st.lists(st.tuples(_runs, _eids), max_size=4),
        "marks": st.lists(
            st.builds(MarkRow, st.sampled_from(["a", "b"]), st.just("s"), st.just("i"), _eids, _runs),
            max_size=3,
        ),
        "unheld": st.lists(st.tuples(_runs, _eids), max_size=2),
        "withdrawals": st.lists(
            st.builds(WithdrawalRow, _eids, st.sampled_from(["", "why"]), st.booleans()), max_size=3
        ),
        "confirmed": st.lists(_eids, max_size=1),
        "labels": st.lists(st.tuples(st.integers(1, 36), st.sampled_from(["mail", "model:far"])), max_size=3),
        "keys": st.lists(st.tuples(st.just("n"), st.just("@x"), st.text(max_size=3)), max_size=3),
        "forgotten_elements": st.lists(_eids, max_size=2, unique=True),
        "forgotten_runs": st.lists(_runs, max_size=1),
        "new_elements": st.integers(0, 3),
        "new_runs": st.lists(_runs, max_size=2),
    },
)
_rounds = st.tuples(st.tuples(_slots, _slots, _slots), st.booleans())
"""A turn of each of three agents, recorded together, and whether the store is opened again."""


class Model:
    """What the store promises to keep of one agent, said with sets."""

    def __init__(self) -> None:
        self.last = 0
        self.elements: dict[int, bool] = {}
        self.runs: set[int] = set()
        self.held: set[tuple[int, int]] = set()
        self.marks: dict[tuple[Any, ...], int] = {}
        self.withdrawals: dict[int, WithdrawalRow] = {}
        self.labels: set[tuple[int, str]] = set()
        self.keys: set[tuple[str, str, str]] = set()

    def apply(self, filled: Batch) -> None:
        self.elements.update((each.element.eid, False) for each in filled.elements)
        self.elements.update((eid, True) for eid in filled.outdated if eid in self.elements)
        self.runs.update(row.eid for row in filled.runs)
        self.held.update(filled.held)
        self.held -= set(filled.unheld)
        for mark in filled.marks:
            self.marks.setdefault(mark[:4], mark.run)
        self.withdrawals.update(filled.withdrawals)
        confirmed = [eid for eid, row in filled.withdrawals.items() if row is None]
        for eid in (*confirmed, *filled.forgotten_elements):
            self.withdrawals.pop(eid, None)
        self.labels.update(filled.labels)
        self.keys.update(filled.keys)
        for eid in filled.forgotten_elements:
            self.elements.pop(eid, None)
        gone = {*filled.forgotten_elements, *filled.forgotten_runs}
        self.marks = {mark: run for mark, run in self.marks.items() if mark[3] not in gone}
        self.labels = {(eid, label) for eid, label in self.labels if eid not in gone}
        self.runs -= set(filled.forgotten_runs)
        self.held = {(run, eid) for run, eid in self.held if run not in filled.forgotten_runs}
        self.held = {(run, eid) for run, eid in self.held if eid not in filled.forgotten_elements}

    def batch(self, agent: int, turn: dict[str, Any]) -> Batch:
        """A turn as the loop has it: runs that are there come to hold elements that are there."""
        slots = dict(turn)
        filled = batch(agent, runs=[running(run) for run in slots.pop("new_runs", [])])
        for _ in range(slots.pop("new_elements", 0)):
            self.last += 1
            filled.elements.append(added(self.last))
        filled.withdrawals.update((row.eid, row) for row in slots.pop("withdrawals", ()))
        filled.withdrawals.update(dict.fromkeys(slots.pop("confirmed", ())))
        for slot, rows in slots.items():
            getattr(filled, slot).extend(rows)
        runs = self.runs | {row.eid for row in filled.runs}
        elements = set(self.elements) | {each.element.eid for each in filled.elements}
        filled.held = [
            (run, eid)
            for run, eid in filled.held
            if run in runs and eid in elements and (run, eid) not in self.held
        ]
        return filled


@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rounds=st.lists(_rounds, max_size=6))
def test_the_store_keeps_of_each_agent_what_a_model_of_sets_keeps(
    new_store: Path, rounds: list[tuple[tuple[dict[str, Any], ...], bool]]
) -> None:
    path = Path(shutil.copy(new_store, new_store.with_name("model.db")))
    store, models = open_store(path), {agent: Model() for agent in (1, 2, 3)}
    for turns, reopen in rounds:
        batches = [models[agent].batch(agent, turn) for agent, turn in zip(models, turns, strict=True)]
        store.commit(*batches)
        for filled in batches:
            models[filled.agent].apply(filled)
        if reopen:
            store = reopened(store, path)
    for agent, model in models.items():
        known = store.of(agent)
        assert {kept.element.eid: kept.outdated for kept in known.elements()} == model.elements
        assert {row.eid for row in known.runs()} == model.runs
        assert list(known.contexts()) == sorted(model.held)
        assert {mark[:4]: mark.run for mark in known.marks()} == model.marks
        assert list(known.withdrawals()) == [model.withdrawals[eid] for eid in sorted(model.withdrawals)]
        assert list(known.labels()) == sorted(model.labels)
        assert set(known.keys()) == model.keys
    store.close()

"""Memory: its elements, their availability, and indexes that agree with a scan (N1, N2, N18)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from narval.core.elements import changes
from narval.core.elements.element import Element, Tree
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Bound, condition
from tests.examples import examples

SCOPE = ("g.r", "a", "mail")
OTHER = ("g.r", "b", "mail")


def bound(*texts: str) -> Bound:
    return condition(*texts).bind()


def memory(*elements: str) -> Memory:
    made = Memory()
    for xml in elements:
        made.apply(changes.Added(Element(made.next_eid, xml.encode())))
    return made


# --- N1: elements ---------------------------------------------------------------------------------------


def test_N1_elements_are_found_by_their_eid_and_listed_oldest_first() -> None:
    made = memory("<mail/>", "<page/>", "<mail/>")
    assert list(made) == [1, 2, 3]
    assert [made.element(eid).name for eid in made] == ["mail", "page", "mail"]
    assert (len(made), 2 in made, 9 in made, made.element(9)) == (3, True, False, None)


def test_N1_an_eid_is_never_given_again_not_even_after_forgetting_the_last() -> None:
    made = memory("<mail/>", "<mail/>")
    made.apply(changes.Forgotten((2,)))
    assert made.next_eid == 3


def test_N1_elements_of_some_names_come_oldest_first() -> None:
    made = memory("<mail/>", "<page/>", "<mail/>", "<note/>")
    assert list(made.named(["note", "mail"])) == [1, 3, 4]
    assert list(made.named(["mail"])) == [1, 3]
    assert list(made.named([])) == []
    assert list(made.named(None)) == [1, 2, 3, 4]


# --- N2: runs -------------------------------------------------------------------------------------------


def test_N2_a_run_is_an_element_rendered_on_demand() -> None:
    made, states = memory("<mail/>"), ["ready"]
    made.show_run(2, "plan", lambda eid: Element(eid, f"<plan state='{states[-1]}'/>".encode()))
    made.apply(changes.Added(Element(made.next_eid, b"<mail/>")))
    assert list(made) == [1, 2, 3]
    assert made.is_run(2)
    assert not made.is_run(1)
    assert list(made.matching(bound("plan[@state='done']"))) == []
    states.append("done")
    assert list(made.matching(bound("plan[@state='done']"))) == [2]
    assert list(made.matching(bound("*"))) == [1, 2, 3]
    made.hide_run(2, "plan")
    assert list(made) == [1, 3]
    assert list(made.matching(bound("plan"))) == []


def test_N2_runs_are_not_indexed_by_their_attributes_which_change() -> None:
    made, state = Memory(), ["ready"] * 100
    for eid in range(1, 101):
        made.show_run(eid, "plan", lambda eid: Element(eid, f"<plan state='{state[eid - 1]}'/>".encode()))
    for _ in range(5):
        assert list(made.matching(bound("plan[@state='done']"))) == []
    state[41] = "done"
    assert list(made.matching(bound("plan[@state='done']"))) == [42]


# --- N18: availability ----------------------------------------------------------------------------------


def test_N18_an_element_is_not_available_again_to_the_input_that_used_it() -> None:
    made = memory("<mail/>", "<mail/>")
    made.apply(changes.Used(SCOPE, (1,), 9))
    assert list(made.matching(bound("mail"), SCOPE)) == [2]
    assert list(made.matching(bound("mail"), OTHER)) == [1, 2]
    assert list(made.matching(bound("mail"))) == [1, 2]
    assert (made.used_by(1), made.used_by(2)) == ([(SCOPE, 9)], [])


def test_N18_a_reserved_or_outdated_element_is_available_to_no_one() -> None:
    made = memory("<mail/>", "<mail/>", "<mail/>")
    made.apply(changes.Reserved((1,)))
    made.apply(changes.Outdated((2,)))
    assert list(made.matching(bound("mail"))) == [3]
    assert list(made.among([3, 2, 1], bound("mail"), None)) == [3]
    assert list(made.select(bound("mail"))) == [1, 2, 3], "a query by people shows them"
    made.apply(changes.Released((1,)))
    assert list(made.matching(bound("mail"))) == [1, 3]


def test_N18_memory_knows_that_only_a_reservation_is_in_the_way() -> None:
    made = memory("<mail/>", "<mail n='1'/>")
    assert not made.reserved_for(bound("mail"), None)
    made.apply(changes.Reserved((1,)))
    assert made.reserved_for(bound("mail"), None)
    assert not made.reserved_for(bound("mail[@n]"), None)
    made.apply(changes.Used(SCOPE, (1,)))
    assert not made.reserved_for(bound("mail"), SCOPE), "it has been used: being free would not help"


def test_among_keeps_the_order_given_and_drops_eids_without_an_element() -> None:
    made = memory("<mail/>", "<page/>", "<mail/>")
    assert list(made.among([9, 3, 2, 1], bound("mail"), None)) == [3, 1]


# --- forgetting and reverting ---------------------------------------------------------------------------


def test_N5_a_forgotten_element_leaves_contexts_marks_and_indexes() -> None:
    made = memory(*(f"<mail n='{n % 3}'/>" for n in range(90)))
    assert len(list(made.matching(bound("mail[@n='1']")))) == 30
    made.apply(changes.Held(7, (2, 5)))
    made.apply(changes.Used(SCOPE, (2,)))
    made.apply(changes.Outdated((2,)))
    made.apply(changes.Forgotten((2,), runs=()))
    assert made.element(2) is None
    assert list(made.contexts.of(7)) == [5]
    assert made.marks == {SCOPE: {}}
    assert made.outdated == set()
    assert 2 not in list(made.matching(bound("mail[@n='1']")))


def test_N5_a_forgotten_run_leaves_the_contexts_and_marks_of_others_too() -> None:
    memory = Memory()
    for run in (5, 6):
        memory.show_run(run, "plan", lambda eid: Element(eid, b"<plan/>"))
    memory.apply(changes.Held(6, (5,)))
    memory.apply(changes.Used(SCOPE, (5,)))
    memory.apply(changes.Forgotten(runs=(5,)))
    assert list(memory.contexts.runs()) == []
    assert not memory.marks[SCOPE]


def test_N4_an_element_has_its_declaration_until_it_is_declared_no_more() -> None:
    made = Memory()
    made.apply(changes.Added(Element(1, b"<user/>"), declared="memory.xml:abc"))
    assert made.declared == {1: "memory.xml:abc"}
    made.apply(changes.Undeclared((1,)))
    assert made.declared == {}
    assert 1 in made


@pytest.mark.parametrize(
    "change",
    [
        changes.Added(Element(3, b"<mail/>")),
        changes.Added(Element(3, b"<mail/>"), held=9),
        changes.Held(9, (1, 2)),
        changes.Used(SCOPE, (1,)),
        changes.Reserved((1, 2)),
        changes.Released((2,)),
        changes.Outdated((1,)),
        changes.Keyed("mail", "@id", "7"),
    ],
    ids=lambda change: type(change).__name__,
)
def test_a_change_that_was_reverted_has_left_nothing(change: Any) -> None:
    made = memory("<mail/>", "<mail/>")
    if isinstance(change, changes.Released):
        made.apply(changes.Reserved((2,)))
    before = seen(made)
    made.apply(change)
    assert seen(made) != before
    made.revert(change)
    assert seen(made) == before


def seen(made: Memory) -> list[Any]:
    """All that a memory shows."""
    return [
        list(made),
        made.next_eid,
        {run: list(made.contexts.of(run)) for run in made.contexts.runs()},
        {scope: dict(uses) for scope, uses in made.marks.items() if uses},
        set(made.reserved),
        set(made.outdated),
        set(made.unique_values),
        list(made.matching(bound("mail"))),
    ]


# --- the indexes agree with a scan ----------------------------------------------------------------------

PATTERNS = [
    bound("mail"),
    bound("mail[@n='1']"),
    bound("mail[@n='1'][@to='b']"),
    bound("mail[@n > 1]"),
    bound("mail | page[@n='2']"),
    bound("*[@n='2']"),
    bound("*"),
    bound("mail", "*[@to='a']"),
    bound("never"),
    bound("mail[@eid='40']"),
]


class Scanning(RuleBasedStateMachine):
    """A memory beside one that tries every element."""

    @initialize(count=st.integers(0, 60))
    def fill(self, count: int) -> None:
        self.memory = Memory()
        self.undo: list[Any] = []
        for number in range(count):
            self.add("mail", str(number % 4), "ab"[number % 2])

    def apply(self, change: Any) -> None:
        self.memory.apply(change)
        self.undo.append(change)

    @rule(name=st.sampled_from(["mail", "page"]), n=st.sampled_from("0123"), to=st.sampled_from("ab"))
    def add(self, name: str, n: str, to: str) -> None:
        self.apply(changes.Added(Element(self.memory.next_eid, f'<{name} n="{n}" to="{to}"/>'.encode())))

    @rule(data=st.data(), scope=st.sampled_from([SCOPE, OTHER]))
    def use(self, data: st.DataObject, scope: tuple[str, str, str]) -> None:
        self.apply(changes.Used(scope, self.some(data, without=self.memory.marks.get(scope, set()))))

    @rule(data=st.data())
    def reserve(self, data: st.DataObject) -> None:
        self.apply(changes.Reserved(self.some(data, without=self.memory.reserved)))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        reserved = self.memory.reserved
        self.apply(changes.Released(tuple(eid for eid in self.some(data) if eid in reserved)))

    @rule(data=st.data())
    def outdate(self, data: st.DataObject) -> None:
        self.apply(changes.Outdated(self.some(data, without=self.memory.outdated)))

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        self.memory.apply(changes.Forgotten(self.some(data, without=self.memory.reserved)))
        self.undo.clear()

    @rule(steps=st.integers(1, 5))
    def revert(self, steps: int) -> None:
        for _ in range(min(steps, len(self.undo))):
            self.memory.revert(self.undo.pop())

    @rule(which=st.sampled_from(PATTERNS), scope=st.sampled_from([None, SCOPE, OTHER]))
    def look(self, which: Bound, scope: tuple[str, str, str] | None) -> None:
        assert list(self.memory.matching(which, scope)) == list(self.scanned(which, scope))

    @rule(which=st.sampled_from(PATTERNS))
    def look_often(self, which: Bound) -> None:
        for _ in range(4):
            self.look(which, SCOPE)

    @invariant()
    def select_finds_all_that_fits(self) -> None:
        if hasattr(self, "memory"):
            for which in PATTERNS[:4]:
                fits = [eid for eid in self.memory if which.test(Tree(self.memory.element(eid)))]
                assert list(self.memory.select(which)) == fits

    def scanned(self, which: Bound, scope: tuple[str, str, str] | None) -> Iterator[int]:
        for eid in sorted(self.memory):
            element = self.memory.element(eid)
            if eid in self.memory.outdated or eid in self.memory.reserved:
                continue
            if scope is not None and eid in self.memory.marks.get(scope, ()):
                continue
            if which.test(Tree(element)):
                yield eid

    def some(self, data: st.DataObject, without: set[int] = frozenset()) -> tuple[int, ...]:
        free = [eid for eid in self.memory if eid not in without]
        return tuple(data.draw(st.lists(st.sampled_from(free), max_size=3, unique=True))) if free else ()


TestScanning = Scanning.TestCase
TestScanning.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)

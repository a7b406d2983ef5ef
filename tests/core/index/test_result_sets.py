"""Result sets: a condition asked for often finds what looking through all of memory finds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.elements import changes
from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element
from narval.core.index.result_sets import ASKED, MOST
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Bound, condition
from tests.examples import examples

MAIL = condition("mail[@to and not(@kind)]").bind()
ANY_MAIL = condition("mail").bind()
SCOPES = [None, ("r", "a", "1"), ("r", "b", "1")]


def filled(count: int) -> Memory:
    memory = Memory()
    for _ in range(count):
        add(memory, "<mail to='x'/>")
    return memory


def add(memory: Memory, xml: str) -> changes.Added:
    change = changes.Added(Element(memory.next_eid, canonical(xml)))
    memory.apply(change)
    return change


def test_the_oldest_unused_is_found_without_trying_those_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = filled(500)
    scope = SCOPES[1]
    for _ in range(ASKED):
        next(memory.matching(MAIL, scope))
    for expected in range(1, 500):
        assert next(memory.matching(MAIL, scope)) == expected
        memory.apply(changes.Used(scope, (expected,)))
    monkeypatch.setattr(Bound, "test", None)
    assert next(memory.matching(MAIL, scope)) == 500


def test_a_reserved_element_comes_back_when_it_is_released() -> None:
    memory = filled(40)
    memory.apply(changes.Reserved((1, 2)))
    for _ in range(ASKED + 1):
        assert next(memory.matching(MAIL, None)) == 3
    memory.apply(changes.Released((1, 2)))
    assert next(memory.matching(MAIL, None)) == 1


def test_a_new_element_is_tried_on_no_more_result_sets_than_are_worth_keeping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = filled(40)
    for number in range(3 * MOST):
        bound = condition(f"mail[@to != '{number}']").bind()
        for _ in range(ASKED):
            assert len(list(memory.matching(bound, None))) == 40
    tried: list[Bound] = []
    monkeypatch.setattr(Bound, "test", lambda bound, tree: tried.append(bound))
    add(memory, "<mail to='x'/>")
    assert len(tried) == len(set(tried)) == MOST


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add-other", "use", "outdate", "forget", "revert", "ask"]),
        st.integers(0, 60),
        st.sampled_from(SCOPES[1:]),
    ),
    max_size=60,
)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_a_result_set_never_differs_from_looking_through_memory(steps) -> None:
    memory = filled(40)
    for bound in (MAIL, ANY_MAIL):
        for _ in range(ASKED):
            list(memory.matching(bound, SCOPES[1]))
    last: list[changes.Change] = []
    for step, number, scope in steps:
        eids = list(memory)
        eid = eids[number % len(eids)] if eids else 0
        change: changes.Change | None = None
        if step == "add":
            last = [add(memory, "<mail to='y'/>")]
        elif step == "add-other":
            last = [add(memory, "<mail kind='ack' to='y'/>")]
        elif step == "use" and eid and eid not in memory.marks.get(scope, ()):
            change = changes.Used(scope, (eid,))
        elif step == "outdate" and eid and eid not in memory.outdated:
            change = changes.Outdated((eid,))
        elif step == "forget" and eid:
            memory.apply(changes.Forgotten((eid,)))
            last = []
        elif step == "revert" and last:
            memory.revert(last.pop())
        if change is not None:
            memory.apply(change)
            last = [change]
        for bound in (MAIL, ANY_MAIL):
            for by in SCOPES:
                plain = [
                    eid
                    for eid in memory
                    if memory.is_available(eid, by) and bound.test(memory.tree(memory.element(eid)))
                ]
                assert list(memory.matching(bound, by)) == plain


def test_no_result_set_is_kept_of_a_name_that_runs_bear() -> None:
    memory = filled(40)
    for _ in range(ASKED + 1):
        assert len(list(memory.matching(MAIL, None))) == 40
    memory.show_run(41, "mail", lambda eid: Element(eid, b"<mail to='x'/>"))
    assert list(memory.matching(MAIL, None)) == list(range(1, 42))

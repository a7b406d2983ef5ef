"""The moment since which an element fits, by those that it replaced (N38); what replaced it (N45)."""

from __future__ import annotations

from narval.core.elements import changes
from narval.core.elements.element import Element, Origin
from narval.core.memory.lineage import current, fits_since
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import condition

OPEN = condition("ticket[@state='open']").bind()
SCOPE = ("g.r", "a", "1")


def memory(*states: str) -> Memory:
    """Tickets 1, 2, …, added a second apart, each of which replaced the one before."""
    made = Memory()
    for eid, state in enumerate(states, start=1):
        origin = Origin(9, "step", "call", (eid - 1,)) if eid > 1 else None
        xml = f"<ticket state='{state}'/>".encode()
        made.apply(changes.Added(Element(eid, xml, 100.0 + eid, origin)))
        made.apply(changes.Outdated((eid - 1,) if eid > 1 else ()))
    return made


def test_N38_an_element_that_replaced_none_fits_since_it_was_added() -> None:
    assert fits_since(memory("open"), 1, OPEN, None) == 101.0


def test_N38_an_element_fits_since_the_first_of_those_it_replaced() -> None:
    assert fits_since(memory("open", "open", "open"), 3, OPEN, None) == 101.0


def test_N38_an_element_that_did_not_fit_ends_the_line() -> None:
    assert fits_since(memory("open", "closed", "open"), 3, OPEN, None) == 103.0


def test_N38_an_element_that_the_scope_used_ends_the_line() -> None:
    made = memory("open", "open", "open")
    made.apply(changes.Used(SCOPE, (2,)))
    assert fits_since(made, 3, OPEN, SCOPE) == 103.0
    assert fits_since(made, 3, OPEN, None) == 101.0


def test_N38_a_source_that_was_not_replaced_is_not_of_the_line() -> None:
    made = memory("open", "open")
    made.revert(changes.Outdated((1,)))
    assert fits_since(made, 2, OPEN, None) == 102.0


def test_N38_the_moment_of_forgotten_elements_is_the_one_known_before() -> None:
    made = memory("open", "open", "open")
    made.apply(changes.Forgotten((1, 2)))
    assert fits_since(made, 3, OPEN, None) == 103.0
    assert fits_since(made, 3, OPEN, None, known=101.0) == 101.0


# --- what counts in its place (N45) ---------------------------------------------------------------------


def test_N45_an_element_that_was_replaced_stands_for_the_last_of_its_line() -> None:
    made = memory("open", "closed", "open")
    assert [current(made, eid) for eid in (1, 2, 3)] == [3, 3, 3]


def test_N45_an_element_that_nothing_has_replaced_stands_for_none() -> None:
    made = memory("open", "open")
    made.apply(changes.Outdated((2,)))
    assert (current(made, 1), current(made, 2)) == (None, None)
    assert current(made, 99) is None, "it was forgotten"


def test_N45_what_was_made_of_it_under_another_name_is_no_version_of_it() -> None:
    made = memory("open")
    made.apply(changes.Added(Element(2, b"<note/>", 102.0, Origin(9, "step", "call", (1,)))))
    made.apply(changes.Added(Element(3, b"<ticket/>", 103.0, Origin(9, "step", "call", (2,)))))
    made.apply(changes.Outdated((1,)))
    assert current(made, 1) is None


def test_N45_of_several_that_replaced_it_one_that_counts_is_found() -> None:
    made = memory("open")
    for eid in (2, 3):
        made.apply(changes.Added(Element(eid, b"<ticket/>", 102.0, Origin(9, "step", "call", (1,)))))
    made.apply(changes.Outdated((1,)))
    assert current(made, 1) == 3
    made.apply(changes.Outdated((3,)))
    assert current(made, 1) == 2

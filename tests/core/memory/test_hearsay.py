"""Hearsay spreads with what is made of it, and outlives what it came from."""

from __future__ import annotations

from narval.core.elements.changes import HEARSAY, Added, Forgotten, Held, Used
from narval.core.elements.element import Element, Origin
from narval.core.memory.hearsay import is_hearsay, spreads_to
from narval.core.memory.memory import Memory

RUN, OTHER = 100, 101


def added(memory: Memory, eid: int, origin: Origin | None = None, held: int = 0) -> tuple[int, int]:
    change = Added(Element(eid, b"<x/>", 0.0, origin), "", held)
    memory.apply(change)
    found = spreads_to(memory, change)
    for marked in filter(None, found):
        memory.apply(Used(HEARSAY, (marked,)))
    return found


def test_what_is_made_of_hearsay_is_and_the_run_that_holds_it() -> None:
    memory = Memory()
    assert added(memory, 1, Origin(RUN, "ask", "1.1")) == (0, 0), "nothing is hearsay yet"
    memory.apply(Used(HEARSAY, (1,)))
    assert added(memory, 2, Origin(RUN, "a", "1.2", (1,)), RUN) == (2, RUN)
    assert added(memory, 3, Origin(RUN, "b", "1.3")) == (3, 0), "by a step of a run that is"
    assert added(memory, 4, Origin(RUN)) == (4, 0), (
        "so is what narval says of such a run: its error may quote it"
    )
    assert added(memory, 5, Origin(OTHER, "c", "1.4")) == (0, 0)
    assert spreads_to(memory, Held(OTHER, (5, 3))) == (0, OTHER)
    assert spreads_to(memory, Held(OTHER, (5,))) == (0, 0)


def test_it_stays_when_what_it_came_from_is_forgotten() -> None:
    memory = Memory()
    added(memory, 1)
    memory.apply(Used(HEARSAY, (1,)))
    added(memory, 2, Origin(RUN, "a", "1.2", (1,)))
    memory.apply(Forgotten((1,), (RUN,)))
    assert is_hearsay(memory, (2,))
    assert not is_hearsay(memory, (1, RUN))
    assert memory.used_by(2) == [], "nobody has used it by that"

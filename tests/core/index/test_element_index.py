"""The index of elements: when it is worth it to have the values of an attribute."""

from __future__ import annotations

from narval.core.elements.changes import Added
from narval.core.elements.element import Element
from narval.core.index.element_index import TRIED_OFTEN
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import condition


def memory_of(bells: int) -> Memory:
    memory = Memory()
    for number in range(1, bells + 1):
        memory.apply(Added(Element(number, b"<bell for='%d'/>" % number)))
    return memory


def test_a_few_elements_are_tried_until_an_index_has_paid() -> None:
    memory, wanted = memory_of(10), condition("bell[@for='7']").bind()
    assert list(memory.index.candidates(wanted) or ()) == list(range(1, 11))
    tried = sum(len(list(memory.index.candidates(wanted) or ())) for _ in range(1000))
    assert tried < TRIED_OFTEN + 1000, "then each is found by its value"
    assert list(memory.matching(wanted)) == [7]


def test_an_index_that_has_paid_knows_what_comes_later() -> None:
    memory, wanted = memory_of(10), condition("bell[@for='11']").bind()
    for _ in range(100):
        assert list(memory.matching(wanted)) == []
    memory.apply(Added(Element(11, b"<bell for='11'/>")))
    assert list(memory.matching(wanted)) == [11]


def test_one_element_alone_is_always_tried() -> None:
    memory, wanted = memory_of(1), condition("bell[@for='7']").bind()
    for _ in range(2 * TRIED_OFTEN):
        assert list(memory.index.candidates(wanted) or ()) == [1]

"""The values of `[known]`: of elements without a label that count, each looked at once."""

from __future__ import annotations

import pytest

from narval.core.elements.changes import Added, Labelled, Outdated
from narval.core.elements.element import Element, Tree
from narval.core.memory.memory import Memory
from narval.core.patterns.pattern import Condition, compile_pattern
from narval.core.trust.contents import KnownValues

MAILS = compile_pattern("contact/@mail")


def texts(known: KnownValues, memory: Memory) -> list[str]:
    return [element.text for element in known.values(memory, MAILS)]


def test_the_values_are_those_of_elements_without_a_label_that_count() -> None:
    memory, known = Memory(), KnownValues()
    for number, mail in enumerate("abcb", 1):
        memory.apply(Added(Element(number, f"<contact mail='{mail}'/>".encode())))
    assert texts(known, memory) == ["a", "b", "c"]
    memory.apply(Labelled(3, ("mail",)))
    assert texts(known, memory) == ["a", "b"]
    memory.apply(Outdated((1,)))
    assert texts(known, memory) == ["b"]
    memory.apply(Added(Element(5, b"<contact mail=' d '/>")))
    assert texts(known, memory) == ["b", "d"]


def test_an_element_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, known, looked = Memory(), KnownValues(), list[int]()
    tree = Memory.tree

    def looking(self: Memory, element: Element) -> Tree:
        looked.append(element.eid)
        return tree(self, element)

    monkeypatch.setattr(Memory, "tree", looking)
    for number in (1, 2, 3):
        memory.apply(Added(Element(number, f"<contact mail='{number}'/>".encode())))
        values = known.values(memory, MAILS)
        assert known.values(memory, MAILS) is values
        condition = Condition((compile_pattern("letter[@to=$known.people]"),))
        assert known.bind(condition, {"known.people": values}) is known.bind(
            condition, {"known.people": values}
        )
    assert looked == [1, 2, 3]

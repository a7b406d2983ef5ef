"""The cost of a memory of many elements, in bytes and in elements parsed, never in seconds (W8)."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from narval.core.elements import changes
from narval.core.elements.element import Element, Origin
from narval.core.index import element_index
from narval.core.memory import packed
from narval.core.memory.memory import Memory
from narval.core.memory.packed import TreeCache
from narval.core.patterns.pattern import condition

MANY = 8_000
ASKED = [condition(f"email[@{name}='none such']").bind() for name in ("id", "from", "size", "seen", "list")]


def mail(eid: int) -> Element:
    """95 bytes of XML, and nothing that it shares with another."""
    xml = (
        f'<email id="m{eid:07d}" from="{eid % 997:03d}@example.org" size="{eid % 10_000:05d}" '
        f'seen="{eid:014d}" list="no"/>'
    )
    origin = Origin(eid // 10 + 300, f"step-{eid}", f"{eid}-1", (eid + 1_000_000,))
    return Element(eid + 300, xml.encode(), 1_700_000_000.0 + eid, origin)


def filled(count: int) -> Memory:
    memory = Memory()
    for eid in range(count):
        memory.apply(changes.Added(mail(eid)))
    return memory


@pytest.mark.usefixtures("small_heap")
def test_an_element_takes_260_bytes_and_310_once_its_attributes_are_indexed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packed, "YOUNG", 16)
    monkeypatch.setattr(packed, "TOGETHER", 16)
    assert 90 <= len(mail(0).xml) <= 100
    assert all(bound.alternatives() for bound in ASKED)
    gc.collect()
    tracemalloc.start()
    try:
        memory = filled(MANY)
        assert tracemalloc.get_traced_memory()[0] <= 260 * MANY
        for bound in ASKED:
            assert list(memory.select(bound)) == []
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] <= 310 * MANY
    finally:
        tracemalloc.stop()


def test_neither_an_index_nor_a_further_element_in_it_parses_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = filled(500)
    monkeypatch.setattr(element_index, "parse", None)
    monkeypatch.setattr(TreeCache, "of", None)
    for bound in ASKED:
        assert list(memory.select(bound)) == []
    memory.apply(changes.Added(mail(500)))
    memory.apply(changes.Forgotten((300,)))
    assert len(list(memory.index.candidates(condition("email[@id='m0000500']").bind()))) == 1
    assert list(memory.index.candidates(condition("email[@id='m0000000']").bind())) == []

"""An element is what it was, whether it is young and an object or old and packed."""

from __future__ import annotations

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.elements.element import Element, Origin
from narval.core.memory import packed as module
from narval.core.memory.packed import LARGE, ElementTable

EID = st.integers(0, 2**40)
WORD = st.text(max_size=5)
MADE = st.builds(Origin, EID, WORD, WORD, st.lists(EID, max_size=3).map(tuple))
GIVEN = st.builds(Origin, step=WORD, by=st.text(min_size=1, max_size=5), actor=WORD)
BY_MONITOR = st.builds(Origin, by=WORD, way=st.just("web"), session=WORD)
XML = st.sampled_from(
    [b"<a/>", b"<b/>", '<é a="é"/>'.encode(), b'<c xmlns="urn:x"/>', b"<d>" + b"x" * LARGE + b"</d>"]
)
ELEMENT = st.tuples(XML, st.floats(allow_nan=False), st.none() | MADE | GIVEN | BY_MONITOR)


@pytest.fixture(autouse=True, scope="module")
def _grows_old_soon():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "YOUNG", 2)
        patch.setattr(module, "TOGETHER", 2)
        yield


@given(st.lists(ELEMENT, max_size=12), st.sets(st.integers(1, 12)))
def test_a_packed_element_is_as_it_was(given_elements, gone):
    elements, expected = ElementTable(), {}
    for eid, (xml, added, origin) in enumerate(given_elements, start=1):
        expected[eid] = Element(eid, xml, added, origin)
        elements.add(Element(eid, xml, added, origin))
    for eid in gone:
        assert elements.pop(eid) == expected.pop(eid, None)
    assert list(elements) == list(expected)
    assert len(elements) == len(expected)
    for eid, element in expected.items():
        found = elements.get(eid)
        assert eid in elements
        assert found == element
        assert (found.added, found.origin, found.name) == (element.added, element.origin, element.name)
        assert elements.name(eid) == element.name
    everything = [(eid, element.xml) for eid, element in expected.items()]
    assert list(elements.documents(range(20))) == everything
    for eid in gone:
        assert eid not in elements
        assert elements.get(eid) is None
        assert elements.name(eid) is None


def test_an_origin_too_long_to_be_packed_is_kept_as_it_is():
    elements, origin = ElementTable(), Origin(1, "x" * 70_000)
    for eid in range(1, 5):
        elements.add(Element(eid, b"<a/>", 0.0, origin))
    assert elements.get(1).origin is origin


def test_an_eid_added_again_is_the_element_added_last():
    elements = ElementTable()
    elements.add(Element(1, b"<a/>"))
    elements.pop(1)
    elements.add(Element(1, b"<b/>"))
    for eid in range(2, 9):
        elements.add(Element(eid, b"<a/>"))
    assert elements.get(1) == Element(1, b"<b/>")
    assert elements.name(1) == "b"


@pytest.mark.usefixtures("small_heap")
def test_elements_add_nothing_to_the_work_of_the_garbage_collector():
    elements = ElementTable()
    gc.collect()
    before = len(gc.get_objects())
    for eid in range(1, 100):
        elements.add(Element(eid, b"<a/>", float(eid), Origin(eid, "step", "call", (eid - 1,))))
    gc.collect()
    assert len(elements) == 99
    assert len(gc.get_objects()) - before < 10

"""Attributes read from bytes are those that a parser finds; an index of them misses no element."""

from __future__ import annotations

from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from narval.core.elements.canonical import canonical
from narval.core.elements.element import CONTROL, Element
from narval.core.errors import ElementError
from narval.core.index import element_index
from narval.core.index.element_index import ValueIndex, reader

NAMES = ("a", "b", "aa", "xml:lang", "é", "eid", "xmlns", "xmlns:p", "p:a", "xmlns:al", "al:a", "a.b", "a-b")
ASKED = (*NAMES, "{http://www.w3.org/XML/1998/namespace}lang", "{urn:p}a", f"{{{CONTROL}}}a", "c")
VALUE = st.one_of(
    st.sampled_from(
        [
            "",
            "x",
            ' a="',
            " a=",
            "a='",
            "/>",
            ">",
            "&",
            "é",
            "\t",
            "\n",
            "\r",
            "<a b='1'>",
            "urn:p",
            CONTROL,
            " al:a=",
        ]
    ),
    st.text(alphabet="ab =\"'<>&/é\n\t\r😀", max_size=8),
)
GAP = st.sampled_from([" ", "  ", "\n", "\t"])
EQUALS = st.sampled_from(["=", " =", "= "])


@st.composite
def written(draw) -> str:
    """An element as anybody might write it: any quotes, blanks, references; not always well formed."""
    pieces = [f"<{draw(st.sampled_from(['a', 'r', 'p:r', 'é']))}"]
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=5)):
        quote = draw(st.sampled_from("\"'"))
        value = escape(draw(VALUE), {quote: {'"': "&quot;", "'": "&apos;"}[quote]})
        pieces.append(f"{draw(GAP)}{name}{draw(EQUALS)}{quote}{value}{quote}")
    tag = pieces[0][1:]
    inside = draw(st.sampled_from(["", "text", '<c a="1"/>', '<!-- a="2" -->']))
    before = draw(st.sampled_from(["", '<!-- <r a="1"> -->', '<?r a="1"?>']))
    return f"{before}{''.join(pieces)}{draw(st.sampled_from(['', ' ']))}>{inside}</{tag}>"


def parsed(xml: bytes, attribute: str) -> bytes | None:
    value = etree.fromstring(xml).get(attribute)
    return None if value is None else value.encode()


@given(written())
@example('<a b=\'"\' a="x"/>')
@example('<a xmlns=\'urn:"\' a="1"/>')
@example(f'<a xmlns:al="{CONTROL}" b=" al:a=" c="1" al:a="2"/>')
@example(f'<a b=" xmlns:al=" xmlns:al="urn:p" al:a="{CONTROL}"/>')
def test_an_attribute_is_read_as_a_parser_reads_it_however_it_is_written(text):
    try:
        kept = canonical(text)
    except ElementError:
        return
    for xml in (text.encode(), kept):
        for attribute in ASKED:
            assert reader(attribute)(0, xml) == parsed(xml, attribute), (attribute, xml)


@given(st.dictionaries(st.sampled_from(["a", "b", "aa", "a.b"]), VALUE, min_size=1))
def test_every_value_comes_back(given_attributes):
    root = etree.Element("r")
    for name, value in given_attributes.items():
        root.set(name, value)
    xml = canonical(root)
    for name in ("a", "b", "aa", "a.b"):
        expected = given_attributes.get(name)
        assert reader(name)(1, xml) == (None if expected is None else expected.encode())


def test_an_attribute_written_plainly_is_not_parsed(monkeypatch):
    monkeypatch.setattr(element_index, "parse", None)
    xml = canonical('<mail from="anna@example.org" subject="é &gt;" to=""><mail cc="x"/></mail>')
    assert reader("from")(1, xml) == b"anna@example.org"
    assert reader("to")(1, xml) == b""
    assert reader("cc")(1, xml) is None
    assert reader("eid")(1, xml) == b"1"
    stamped = f'<mail xmlns:al="{CONTROL}" al:from="shop" from="x"/>'.encode()
    assert (reader("from")(1, stamped), reader(f"{{{CONTROL}}}from")(1, stamped)) == (b"x", b"shop")
    assert reader(f"{{{CONTROL}}}from")(1, xml) is None
    with pytest.raises(TypeError):
        reader("subject")(1, xml)


@given(st.lists(st.sampled_from(["x", "y", "&", "é", None]), max_size=30), st.sets(st.integers(1, 30)))
def test_an_index_finds_all_of_a_value_oldest_first(values, gone):
    elements = [
        Element(eid, canonical("<r/>" if value is None else f'<r a="{escape(value)}"/>'))
        for eid, value in enumerate(values, start=1)
    ]
    half = len(elements) // 2
    index = ValueIndex("a", [(element.eid, element.xml) for element in elements[:half]])
    for element in elements[half:]:
        index.add(element)
    for element in elements:
        if element.eid in gone:
            index.discard(element)
    for value in ("x", "y", "&", "é", "z"):
        expected = [eid for eid, held in enumerate(values, start=1) if held == value and eid not in gone]
        assert list(index.of(value)) == expected
        assert len(index.of(value)) == len(expected)


def test_half_of_a_surrogate_pair_is_no_value():
    assert list(ValueIndex("a", [(1, b'<r a="x"/>')]).of("\ud800")) == []


def test_an_element_is_found_with_the_greatest_eid_of_all():
    eid = (1 << 40) - 1
    assert list(ValueIndex("a", [(eid, b'<r a="x"/>')]).of("x")) == [eid]

"""An element without content, read from its bytes, is as the parser would have made it."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from narval.core.elements import flat_xml
from narval.core.elements.canonical import canonical, elements_of
from narval.core.elements.element import CONTROL, Element, Tree, parse
from narval.core.elements.flat_xml import canonical_flat, flat_attributes
from narval.core.errors import ElementError
from narval.core.patterns.pattern import condition
from tests.counting import CountedCalls

NAMES = st.sampled_from(
    ["a", "b-c", "_x", "A.1", "xmlns", "eid", "memory", "é", "x:y", "xmlns:al", "al:a", "1", "-", ""]
)
VALUES = st.one_of(
    st.text(st.sampled_from(list("ab =/'\"<>&;\t\n\r\x00\x7f\x80é€\U0001f600[]!-?")), max_size=6),
    st.just(CONTROL),
)
QUOTES = st.sampled_from(["'", '"', ""])
BLANKS = st.sampled_from([" ", " ", " ", "", "  ", "\n"])


@st.composite
def written(draw: st.DrawFn) -> str:
    """A text like an element without content, which may be one."""
    attributes = draw(st.lists(st.tuples(BLANKS, NAMES, QUOTES, VALUES), max_size=4))
    inner = "".join(f"{blank}{name}={quote}{value}{quote}" for blank, name, quote, value in attributes)
    return f"<{draw(NAMES)}{inner}{draw(st.sampled_from(['/>', '/>', ' />', '>', '/>x', '></a>']))}"


def by_the_parser(text: str) -> bytes | str:
    """The canonical bytes of a text by the parser alone, or the kind of its refusal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("narval.core.elements.canonical.canonical_flat", lambda data: None)
        try:
            return canonical(text)
        except ElementError as error:
            return error.kind


@given(written())
@example("<a b='c' b='d'/>")
@example("<a b=' b='/>")
@example("<a b=\"=\" c='='/>")
@example("<a xmlns='u'/>")
@example(f"<a b='1' xmlns:al='{CONTROL}'/>")
@example("<a eid='7' b='1'/>")
@example("<a b='>'/>")
@example("<!DOCTYPE a/>")
def test_N1_a_flat_element_is_kept_as_by_the_parser(text: str) -> None:
    xml = canonical_flat(text)
    assert xml is None or xml == by_the_parser(text)


@given(written())
@example("<a xmlns=''/>")
@example("<a xmlns='u'/>")
@example(f"<a xmlns:al='{CONTROL}' al:a='1' a='2'/>")
@example(f"<a xmlns:al='u' al:a='{CONTROL}'/>")
@example(f"<a xmlns='u' xmlns:al='{CONTROL}' al:a='1'/>")
def test_N9_its_attributes_are_those_of_the_parser(text: str) -> None:
    kept = by_the_parser(text)
    if isinstance(kept, bytes):
        found = flat_attributes(kept)
        assert found is None or found == dict(parse(kept).attrib)


@pytest.mark.parametrize("text", ["<a/>", "<a b='1'/>", '<item n="x y" m="="/>', "<a b='' c=''/>"])
def test_an_element_written_plainly_is_not_parsed(text: str) -> None:
    assert canonical_flat(text.encode()) is not None
    assert flat_attributes(canonical(text)) is not None


@given(written(), written())
@example("<a b='>'/>", "<c d='1'/>")
@example("<a b='1' c='2'/>", "<c d='>'/>")
def test_N9_so_are_those_of_an_element_with_content(text: str, within: str) -> None:
    kept = by_the_parser(f"{text.removesuffix('/>')}>{within} and more</a>")
    if isinstance(kept, bytes):
        found = flat_attributes(kept)
        assert found is None or found == dict(parse(kept).attrib)


@pytest.mark.parametrize("rest", [b"/>", b"><b al:a='2'/></a>"])
def test_the_stamp_of_a_message_is_not_parsed(rest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    xml = f'<a xmlns:al="{CONTROL}" al:from="shop" al:message="m.1" n="7"'.encode() + rest
    monkeypatch.setattr("narval.core.elements.element.parse", None)
    element = Element(3, xml)
    tree = Tree(element)
    assert (element.name, tree.get(f"{{{CONTROL}}}from"), tree.get("n"), tree.get("xmlns:al")) == (
        *("a", "shop", "7"),
        None,
    )


def test_the_attributes_of_an_element_with_content_are_not_parsed() -> None:
    assert flat_attributes(canonical("<a b='1' c='two'><body>x &gt; <b/></body></a>")) == {
        "b": "1",
        "c": "two",
    }


def test_a_long_element_is_parsed() -> None:
    long = b"<a b='" + b"x" * flat_xml.LONGEST + b"'/>"
    assert canonical_flat(long) is None
    assert flat_attributes(canonical(long)) is None
    assert Tree(Element(1, canonical(long))).get("b") == "x" * flat_xml.LONGEST


def test_N1_an_eid_that_was_sent_along_is_not_kept() -> None:
    assert canonical("<a eid='7' b='1'/>") == b'<a b="1"/>'
    assert elements_of(b"<a eid='7' b='1'/>") == [b'<a b="1"/>']


def test_a_memory_without_elements_has_none() -> None:
    assert elements_of(b"<memory/>") == []
    assert elements_of(b"<memory a='1'/>") == []


@pytest.mark.parametrize("xml", [b'<a b="1"/>', b"<a b='1'><c/></a>"])
def test_N9_a_tree_knows_the_eid_and_can_be_evaluated(xml: bytes) -> None:
    tree = Tree(Element(5, canonical(xml)))
    assert (tree.get("eid"), tree.get("b"), tree.get("none"), tree.name) == ("5", "1", None, "a")
    assert condition("a[@eid=5 and @b=1][position()=1]").bind().test(tree)
    assert etree.tostring(tree.root).startswith(b'<a b="1" eid="5"')


def test_trees_of_the_same_bytes_share_no_attributes() -> None:
    xml = canonical("<a b='1'/>")
    assert Tree(Element(5, xml)).get("eid") == "5"
    assert Tree(Element(0, xml)).get("eid") is None


def test_an_element_with_content_is_split_once_however_often_others_are_read_between() -> None:
    elements = [Element(eid, b'<note kept="%d"><body>text</body></note>' % eid) for eid in range(1, 9)]
    costs = []
    for _ in range(2):
        with CountedCalls() as counted:
            for element in elements:
                assert element.attributes["kept"] == str(element.eid)
        costs.append(counted.number)
    assert costs[1] < 0.75 * costs[0]


def test_the_values_that_are_kept_hold_no_content() -> None:
    content = b"<body>%s</body>" % (b"x" * 100_000)
    tracemalloc.start()
    try:
        for number in range(200):
            assert Element(1, b'<note at="%d">%s</note>' % (number, content)).attributes
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000

"""Elements: their parts, and the trees made of them."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from lxml import etree

from narval.core.elements.element import CONTROL, Element, Origin, Tree, children, parse
from tests.core.patterns.expressions import elements


def test_an_element_shows_its_parts() -> None:
    element = Element(3, b"<a b='1'>t<!-- c --><c>u</c></a>", 12.5, Origin(1, "step", "call", (2,)))
    assert (element.name, element.text, element.added) == ("a", "tu", 12.5)
    assert element.attributes == {"b": "1", "eid": "3"}
    assert element.with_eid() == b'<a b="1" eid="3">t<!-- c --><c>u</c></a>'
    assert [node.tag for node in element.select("c")] == ["c"]
    assert element.origin == Origin(run=1, step="step", call="call", inputs=(2,))
    assert "Element 3: <a b=" in repr(element)


def test_an_expression_counts_from_the_element_and_knows_the_prefix_of_stamps() -> None:
    element = Element(3, f"<a b='1' xmlns:x='{CONTROL}' x:from='shop'><c n='2'/></a>".encode())
    assert element.select("@b") == element.select("string(@b)").split() == ["1"]
    assert element.select("c/@n") == element.select("/a/c/@n") == ["2"]
    assert element.select("string(@al:from)") == "shop"
    assert (element.xpath("a/c/@n"), element.xpath("c/@n")) == (["2"], [])


@pytest.mark.parametrize(
    ("origin", "sender"), [(Origin(agent="shop", message="m.1"), "shop"), (Origin(run=1), ""), (None, "")]
)
def test_the_sender_is_that_of_a_message(origin: Origin | None, sender: str) -> None:
    forged = f"<a xmlns:al='{CONTROL}' al:from='bank'/>".encode()
    assert Element(3, forged, 0.0, origin).sender == sender


def test_an_element_that_is_not_in_memory_has_no_number() -> None:
    element = Element(0, b"<a/>")
    assert element.attributes == {}
    assert element.with_eid() == b"<a/>"
    assert Tree(element).root.get("eid") is None


@pytest.mark.parametrize(
    ("xml", "name"),
    [
        (b"<a/>", "a"),
        (b"<a.b-c_1 d='xmlns'/>", "a.b-c_1"),
        (b"<a\n b='1'/>", "a"),
        (b"<a xmlns='urn:x'/>", "{urn:x}a"),
        (b"<p:a xmlns:p='urn:x'/>", "{urn:x}a"),
        ("<é/>".encode(), "é"),
        (b"<a xmlns:p='urn:x'/>", "a"),
    ],
)
def test_the_name_of_an_element_is_as_lxml_writes_it(xml: bytes, name: str) -> None:
    assert Element(1, xml).name == name
    assert parse(xml).tag == name


@given(element=elements())
def test_the_name_is_that_of_the_parsed_root(element: Element) -> None:
    assert element.name == parse(element.xml).tag


def test_a_tree_is_a_copy() -> None:
    element = Element(3, b"<a/>")
    element.tree().set("b", "1")
    Tree(element).root.set("b", "1")
    assert element.tree().attrib == {"eid": "3"}
    assert element.xml == b"<a/>"


def test_attributes_are_copied_and_written_like_any_dict() -> None:
    attributes: Any = Element(3, b'<a b="1"/>').attributes
    plain = {"b": "1", "eid": "3"}
    assert json.loads(json.dumps(attributes)) == msgspec.json.decode(msgspec.json.encode(attributes)) == plain
    assert (
        copy.copy(attributes) == copy.deepcopy(attributes) == pickle.loads(pickle.dumps(attributes)) == plain
    )
    assert attributes | {"c": "2"} == {"c": "2"} | attributes == {**plain, "c": "2"}
    copied = copy.copy(attributes)
    copied["b"] = "2"
    assert attributes == plain


@pytest.mark.parametrize("xml", [b'<a b="1"/>', b'<a b="1"><c/></a>', b"<a b='1'/>"])
@pytest.mark.parametrize(
    "alter",
    [
        lambda attributes: attributes.__setitem__("b", "2"),
        lambda attributes: attributes.__delitem__("b"),
        lambda attributes: attributes.__ior__({"b": "2"}),
        lambda attributes: attributes.pop("b"),
        lambda attributes: attributes.popitem(),
        lambda attributes: attributes.update(b="2"),
        lambda attributes: attributes.setdefault("b", "2"),
        lambda attributes: attributes.clear(),
    ],
)
def test_attributes_cannot_be_altered(xml: bytes, alter: Callable[[Any], object]) -> None:
    attributes = Element(3, xml).attributes
    with pytest.raises(TypeError, match="return a new element"):
        alter(attributes)
    assert attributes == {"b": "1", "eid": "3"}


def test_N9_the_element_is_the_only_child_of_its_context() -> None:
    tree = Tree(Element(3, b"<a><b/></a>"))
    assert tree.context.tag == "memory"
    assert tree.context.getparent() is None
    assert list(tree.context) == [tree.root]
    assert tree.root.tag == "a"


def test_elements_are_equal_by_number_and_bytes() -> None:
    assert Element(1, b"<a/>") == Element(1, b"<a/>", 99.0)
    assert hash(Element(1, b"<a/>")) == hash(Element(1, b"<a/>"))
    assert Element(1, b"<a/>") != Element(2, b"<a/>")
    assert Element(1, b"<a/>") != Element(1, b"<b/>")
    assert Element(1, b"<a/>") != "a"


def test_children_are_elements_only() -> None:
    root = etree.fromstring("<a>t<b/><!-- c --><?pi x?><c/></a>")
    assert [child.tag for child in children(root)] == ["b", "c"]

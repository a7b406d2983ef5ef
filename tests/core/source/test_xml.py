"""XML nodes know the line and column of everything in them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from narval.core.errors import DefinitionError
from narval.core.source import MAX_BYTES, xml
from narval.core.source.text import Source
from narval.core.source.xml import MAX_DEPTH, read_xml
from tests.core.source.places import fault_of, root_of
from tests.examples import examples

PLACES = """<?xml version="1.0"?>
<é xmlns:n='urn:n'
   x="a&lt;b" n:y = 'q
r'>
 <n:b/> <c>  foo&amp;<!-- x --><![CDATA[ab]]>c</c><d
 xmlns=""/>
</é>"""


def test_each_node_knows_its_line_and_column_in_characters() -> None:
    found = {node.tag: (node.line, node.column) for node in root_of(PLACES).walk()}
    assert found == {"é": (2, 1), "{urn:n}b": (5, 2), "c": (5, 9), "d": (5, 51)}


def test_a_place_can_be_that_of_any_character_of_an_attribute() -> None:
    root = root_of(PLACES)
    assert root.attributes == {"x": "a<b", "{urn:n}y": "q r"}
    assert [root.place("x", offset) for offset in range(4)] == [(3, 7), (3, 8), (3, 12), (3, 13)]
    assert [root.place("{urn:n}y", offset) for offset in range(3)] == [(3, 22), (3, 23), (4, 1)]
    assert root.place("none") == (2, 1)


def test_a_place_can_be_that_of_any_character_of_the_text() -> None:
    node = root_of(PLACES).children[1]
    assert node.text == "  foo&abc"
    columns = [node.text_place(offset)[1] for offset in range(9)]
    assert columns == [12, 13, 14, 15, 16, 17, 41, 42, 46]


def test_a_character_of_the_text_is_found_behind_what_is_within() -> None:
    node = root_of("<a>x<b>in</b>y<!-- no --><c d='é'>e<f/></c><g/>zä&amp;w<h/></a>")
    assert node.text == "xyzä&w"
    columns = [node.text_place(offset)[1] for offset in range(7)]
    assert columns == [4, 14, 48, 49, 50, 55, 56]
    inner = root_of("<a><b/>x</a>")
    assert (inner.text_place(0), inner.text_place(1)) == ((1, 8), (1, 9))


def test_namespaces_in_scope_are_known_where_a_pattern_may_use_them() -> None:
    root = root_of("<a xmlns:p='u1' xmlns='d'><b xmlns:p='u2'/><c xmlns=''/></a>")
    inner, undeclared = root.children
    assert root.namespaces == {"p": "u1", "": "d"}
    assert inner.namespaces == {"p": "u2", "": "d"}
    assert undeclared.namespaces == {"p": "u1"}
    assert [node.tag for node in root.walk()] == ["{d}a", "{d}b", "c"]


def test_a_node_stands_alone_with_the_namespaces_it_uses() -> None:
    root = root_of("<a xmlns:p='u' xmlns:q='v'><p:b c='&amp;'><!-- kept --></p:b><d/></a>")
    first, second = root.children
    assert first.xml() == b"""<p:b xmlns:p="u" c='&amp;'><!-- kept --></p:b>"""
    assert second.xml() == b"<d/>"
    assert second.xml(all_namespaces=True) == b'<d xmlns:p="u" xmlns:q="v"/>'


@pytest.mark.parametrize(
    "inner", ["<b/>", "<b></b>", "<b>/></b>", "<b><c/></b>", "<b><!-- /> --></b>", "<b x='>'/>"]
)
def test_the_end_of_a_node_is_found_however_it_is_written(inner: str) -> None:
    assert root_of(f"<a><z/>{inner}<z/></a>").children[1].xml() == inner.encode()


def test_N6_comments_instructions_and_stray_text_are_tolerated() -> None:
    root = root_of("<?pi x?><!-- c --><a>stray<?pi y?><b/>more</a><!-- end -->\n<?pi z?>\n")
    assert root.text == "straymore"
    assert [child.tag for child in root.children] == ["b"]


def test_blanks_before_the_xml_declaration_are_tolerated() -> None:
    root = root_of("\n  <?xml version='1.0'?>\n<a/>")
    assert (root.line, root.column) == (3, 1)


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "a.xml:1:1: expected an XML element, found an empty file"),
        ("<a>\n <b>", "a.xml:2:5: not well-formed XML: the file ends within <b> of line 2"),
        (
            "<a>\n<b></a>",
            "a.xml:2:6: not well-formed XML: expected the end of <b> of line 2, found another end tag",
        ),
        ("<a>é&nbsp;</a>", "a.xml:1:5: not well-formed XML: an entity that XML does not know"),
        ("<p:a/>", "a.xml:1:1: not well-formed XML: a prefix that is not declared"),
        ("<a b='1' b='2'/>", "a.xml:1:10: not well-formed XML: an attribute is given twice"),
        ("<a/><b/>", "a.xml:1:5: not well-formed XML: something follows the end of the root element"),
        ("<a b=c/>", "a.xml:1:6: not well-formed XML: a character that cannot be here"),
        ("<a>\x01</a>", "a.xml:1:4: not well-formed XML: a character that cannot be here"),
        ("<!DOCTYPE a><a/>", "a.xml:1:12: a DOCTYPE is not accepted"),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "a DOCTYPE is not accepted"),
    ],
)
def test_xml_that_is_not_well_formed_is_a_fault_with_its_place(text: str, fault: str) -> None:
    assert fault in fault_of(text)


def test_an_entity_bomb_is_refused_before_it_can_grow() -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 20))
    assert "a DOCTYPE is not accepted" in fault_of(f'<!DOCTYPE a [<!ENTITY e0 "x">{entities}]><a>&e19;</a>')


def test_depth_number_and_size_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "nested deeper than 200 levels" in fault_of("<a>" * 10_000)
    assert xml.MAX_NODES == 1_000_000
    monkeypatch.setattr(xml, "MAX_NODES", 10_000)  # so many are read a hundred times as fast
    assert "at most 10,000 elements" in fault_of("<a>" + "<b/>" * 10_000 + "</a>")
    assert f"at most {MAX_BYTES:,} bytes" in fault_of("<a>" + "x" * MAX_BYTES + "</a>")
    assert len(list(root_of("<a>" * MAX_DEPTH + "</a>" * MAX_DEPTH).walk())) == MAX_DEPTH


# --- properties -----------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "p:c", "été", "x-y.z"])
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")).filter(lambda c: c not in "\ufffe\uffff")
)


def written(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


@st.composite
def documents(draw: st.DrawFn, depth: int = 3) -> str:
    name = draw(NAMES)
    value, text = written(draw(TEXTS)), written(draw(TEXTS))
    within = "".join(draw(st.lists(documents(depth - 1), max_size=2))) if depth else ""
    gap = draw(st.sampled_from(["", "\n", "\r\n", "<!-- c -->", "<![CDATA[<z>]]>"]))
    return f'<{name} xmlns:p="urn:p"{gap if not gap.strip() else ""} v="{value}">{text}{gap}{within}</{name}>'


@given(documents())
@settings(max_examples=examples(80), deadline=None)
def test_nodes_are_those_that_lxml_reads(text: str) -> None:
    expected = etree.fromstring(text.encode())
    elements = [element for element in expected.iter() if isinstance(element.tag, str)]
    nodes = list(root_of(text).walk())
    assert [(node.tag, node.attributes["v"]) for node in nodes] == [
        (element.tag, element.get("v")) for element in elements
    ]
    assert [node.text for node in nodes] == ["".join(element.xpath("text()")) for element in elements]
    for node, element in zip(nodes, elements, strict=True):
        alone = etree.fromstring(node.xml())
        assert etree.tostring(alone, method="c14n", exclusive=True) == etree.tostring(
            element, method="c14n", exclusive=True, with_tail=False
        )


@given(documents())
@settings(max_examples=examples(80), deadline=None)
def test_the_place_of_each_character_holds_that_character(text: str) -> None:
    source = Source("a.xml", text.encode())
    lines = text.replace("\r\n", "\n").split("\n")
    for node in read_xml(source).walk():
        assert lines[node.line - 1][node.column - 1] == "<"
        for offset, character in enumerate(node.attributes["v"]):
            line, column = node.place("v", offset)
            assert lines[line - 1][column - 1] in (character, "&", *("\t" if character == " " else ""))


@given(st.binary(max_size=300))
@settings(max_examples=examples(80), deadline=None)
def test_any_bytes_are_read_or_refused_with_a_place(data: bytes) -> None:
    faults = []
    try:
        root_of(data)
    except DefinitionError as error:
        faults = list(error.faults)
    assert all(fault.line >= 1 and fault.column >= 1 for fault in faults)


@pytest.mark.parametrize(
    "within",
    [
        "plain\n text",
        "a &amp; b",
        "&amp;",
        "a&#10;b\r\nc",
        "<!-- no -->a<?no?> b<![CDATA[ <c> ]]>d",
        "a<b/>c",
        "",
    ],
)
def test_the_places_of_many_characters_of_a_text_are_those_of_each(within: str) -> None:
    node = read_xml(Source("a.xml", f"<!-- \n --><a\n x='>'>{within}</a>".encode()))
    places = node.text_places()
    assert [places(at) for at in range(len(node.text) + 1)] == [
        node.text_place(at) for at in range(len(node.text) + 1)
    ]

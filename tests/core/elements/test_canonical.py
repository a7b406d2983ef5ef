"""Untrusted XML becomes canonical bytes, or is refused (N1, N6)."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from narval.core.elements.canonical import MAX_BYTES, MAX_DEPTH, canonical, elements_of, text_bytes
from narval.core.elements.element import CONTROL, Element, Tree, local_name, parse
from narval.core.errors import ElementError
from narval.system.memory_limit import bounded
from tests.core.patterns.expressions import elements


def refused(source: Any) -> ElementError:
    with pytest.raises(ElementError) as caught:
        canonical(source)
    return caught.value


# --- canonical bytes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("<a/>", b"<a/>"),
        (b"<a/>", b"<a/>"),
        (" \n<a/>\n ", b"<a/>"),
        ("\ufeff<a/>", b"<a/>"),
        (b"\xef\xbb\xbf<a/>", b"<a/>"),
        ("<a b='1'>t</a>", b'<a b="1">t</a>'),
        ("<a>\r\n</a>", b"<a>\n</a>"),
        ("<a><![CDATA[<b>]]></a>", b"<a>&lt;b&gt;</a>"),
        ("<a b='&#10;'/>", b'<a b="&#10;"/>'),
        ("<a b='>'/>", b'<a b="&gt;"/>'),
        ("<a>é</a>", "<a>é</a>".encode()),
        ("<é/>", "<é/>".encode()),
        ('<?xml version="1.0"?>\n<a/>', b"<a/>"),
        ('<?xml version="1.0" encoding="latin-1"?><a>é</a>', "<a>é</a>".encode()),
        ('<?xml version="1.0" encoding="utf-16"?><a>é</a>'.encode("utf-16"), "<a>é</a>".encode()),
        ("<a>é</a>".encode("utf-16"), "<a>é</a>".encode()),
        ("<a xmlns='urn:x'/>", b'<a xmlns="urn:x"/>'),
        ("<p:a xmlns:p='urn:x' p:b='1'/>", b'<p:a xmlns:p="urn:x" p:b="1"/>'),
    ],
)
def test_an_element_is_kept_as_utf_8_without_a_declaration(source: str | bytes, kept: bytes) -> None:
    assert canonical(source) == kept


def test_N6_latin_1_files_load() -> None:
    source = '<?xml version="1.0" encoding="ISO-8859-1"?><a>déjà</a>'.encode("latin-1")
    assert canonical(source) == "<a>déjà</a>".encode()
    assert elements_of(source) == ["<a>déjà</a>".encode()]


@pytest.mark.parametrize("encoding", ["latin-1", "shift_jis", "ascii", "utf-16", "none-such"])
def test_the_encoding_that_a_text_declares_does_not_count(encoding: str) -> None:
    text = f"\ufeff\n<?xml version='1.0'\n encoding='{encoding}'?><a>é</a>"
    assert canonical(text) == canonical(text_bytes(text)) == "<a>é</a>".encode()
    assert refused(text_bytes(text[:-2])).line == 3


def test_N6_comments_processing_instructions_and_stray_text_are_tolerated() -> None:
    assert (
        canonical("<!-- before --><?pi x?><a><!-- in --><?pi y?></a><!-- after -->")
        == b"<a><!-- in --><?pi y?></a>"
    )
    held = "<memory>stray<!-- c --><a/> text <?pi x?><b/></memory>"
    assert elements_of(held) == [b"<a/>", b"<b/>"]


def test_N1_the_number_is_not_part_of_what_is_kept() -> None:
    assert canonical("<a eid='7' b='1'/>") == b'<a b="1"/>'
    assert canonical("<a><b eid='7'/></a>") == b'<a><b eid="7"/></a>'
    assert elements_of("<memory><a eid='3'/></memory>") == [b"<a/>"]


def test_a_part_of_a_tree_becomes_an_element_of_its_own() -> None:
    root = etree.fromstring("<r xmlns:p='urn:p'><a q='p:x'>in</a>tail</r>")
    assert canonical(root[0]) == b'<a xmlns:p="urn:p" q="p:x">in</a>'
    assert etree.tostring(root) == b'<r xmlns:p="urn:p"><a q="p:x">in</a>tail</r>'


@given(element=elements())
def test_canonical_bytes_are_kept_unchanged(element: Element) -> None:
    kept = canonical(element.xml)
    assert canonical(kept) == kept
    assert canonical(Tree(Element(5, kept)).root) == kept


def test_N6_narvals_own_words_are_read_with_and_without_the_control_namespace() -> None:
    assert local_name("recipe") == "recipe"
    assert local_name(f"{{{CONTROL}}}recipe") == "recipe"
    assert local_name("{urn:x}recipe") is None
    assert local_name(etree.Comment("c").tag) is None
    assert elements_of(f"<n:memory xmlns:n='{CONTROL}'><n:a/></n:memory>") == [
        f'<n:a xmlns:n="{CONTROL}"/>'.encode()
    ]
    assert elements_of("<m:memory xmlns:m='urn:x'><a/></m:memory>") == [
        b'<m:memory xmlns:m="urn:x"><a/></m:memory>'
    ]


def test_a_file_holds_one_element_or_those_of_a_memory() -> None:
    assert elements_of("<a><b/></a>") == [b"<a><b/></a>"]
    assert elements_of(b"<memory/>") == []


# --- refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [
        ("", 1, 1),
        ("text", 1, 1),
        ("<a>", 1, 4),
        ("<a/><b/>", 1, 5),
        ("<a>\n  <b></a>", 2, 10),
        ("<a b='1' b='2'/>", 1, 15),
        ("<p:a/>", 1, 5),
        ("<1/>", 1, 2),
        ("<a>\x01</a>", 1, 4),
        ("<a b='\x01'/>", 1, 7),
        ("<a>&#0;</a>", 1, 8),
        (b"<a>\xff</a>", 1, 4),
        (b'<?xml version="1.0" encoding="ascii"?><a>\xe9</a>', 1, 1),
        (b'<?xml version="1.0" encoding="nonsense"?><a/>', 1, 1),
        (b'<?xml version="1.0" encoding="base64"?><a/>', 1, 1),
    ],
)
def test_malformed_xml_is_refused_with_its_place(source: str | bytes, line: int, column: int) -> None:
    error = refused(source)
    assert (error.kind, error.line, error.column) == ("malformed", line, column)


_LAUGHS = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12))


@pytest.mark.parametrize(
    "source",
    [
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
        "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
        "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>",
        "<!DOCTYPE a [<!ENTITY % x SYSTEM 'http://127.0.0.1:9/x.dtd'> %x;]><a/>",
        "<!DOCTYPE a [<!ATTLIST a b CDATA 'smuggled'>]><a/>",
        f"<!DOCTYPE a [<!ENTITY a0 'ha'>{_LAUGHS}]><a>&a11;</a>",
        f"<!DOCTYPE a [<!ENTITY a0 'ha'>{_LAUGHS}]><a b='&a11;'/>",
        "<a>&nbsp;</a>",
    ],
    ids=lambda source: source[:40],
)
def test_a_doctype_and_entities_are_refused(source: str) -> None:
    assert refused(source).kind == "doctype"


def test_an_element_nested_too_deep_is_refused() -> None:
    assert canonical("<a>" * 250 + "</a>" * 250)
    assert refused("<a>" * 10_000 + "</a>" * 10_000).kind == "too-deep"


def test_an_element_too_large_is_refused() -> None:
    assert refused("<a>" + "x" * MAX_BYTES + "</a>").kind == "too-large"
    assert refused(f"<a>{'x' * 11_000_000}</a>").kind == "too-large"
    assert refused(f"<a b='{'x' * 11_000_000}'/>").kind == "too-large"


@given(source=st.one_of(st.binary(max_size=60), st.text("<>a/&;!?'\"= \x00\ud7ff[]-", max_size=40)))
def test_bytes_from_anywhere_are_kept_or_refused(source: str | bytes) -> None:
    outcome = kept_or_refused(source)
    if isinstance(outcome, ElementError):
        assert outcome.line >= 1
        assert str(outcome)
    else:
        assert Tree(Element(1, outcome)).root.get("eid") == "1"


def kept_or_refused(source: str | bytes) -> bytes | ElementError:
    try:
        return canonical(source)
    except ElementError as error:
        return error


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("<a>\n<b>\ud800</b></a>", "malformed"),
        (etree.Comment("x"), "malformed"),
        (etree.ProcessingInstruction("x"), "malformed"),
    ],
)
def test_a_node_that_is_no_element_is_refused(source: Any, kind: str) -> None:
    assert refused(source).kind == kind


def test_a_tree_made_by_a_program_is_as_shallow_as_a_parsed_one() -> None:
    root = leaf = etree.Element("a")
    for _ in range(MAX_DEPTH - 1):
        leaf = etree.SubElement(leaf, "a")
    assert Tree(Element(1, canonical(root))).root.tag == "a"
    etree.SubElement(leaf, "a")
    assert refused(root).kind == "too-deep"


def test_a_tree_with_an_entity_is_refused() -> None:
    root = etree.Element("a")
    root.append(etree.Entity("x"))
    assert refused(root).kind == "doctype"


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not bound the memory of a program")
def test_what_there_is_no_memory_for_is_not_told_as_malformed_or_damaged() -> None:
    xml = b"<a>" + b"<b c='d'/>" * 1_500_000 + b"</a>"
    with bounded(1024 * 1024):
        error = refused(xml)
        with pytest.raises(MemoryError):
            parse(xml)
    assert error.kind == "no-memory"
    assert "not enough memory to read it: nothing is wrong with the XML" in error.message

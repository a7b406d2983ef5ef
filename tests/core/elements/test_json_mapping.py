"""JSON as elements and back: nothing is lost; and what authors write is taken as they mean it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from narval.core.elements.canonical import canonical
from narval.core.elements.json_mapping import JsonError, element_of_json, json_of_element, parse_json

_KEYS = st.one_of(
    st.sampled_from(["key", "item", "eid", "json-types", "xmlns", "a", "b", "", "#text", "a:b", "list"]),
    st.text(max_size=5),
)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.text(alphabet="\\u0041 \t\r\n\x00\x1b\x7f\ufffe\ud800", max_size=8),
)
JSON = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=20,
)
NAMES = st.sampled_from(["build", "item", "key", "eid"])


def kept(name: str, text: str) -> bytes:
    """The element of a JSON text as memory keeps it."""
    return canonical(canonical(element_of_json(name, parse_json(text))))


@given(NAMES, JSON)
def test_any_json_comes_back_as_it_was(name: str, value: Any) -> None:
    text = json.dumps(value)
    back = json_of_element(etree.fromstring(kept(name, text)))
    # A pair of escaped surrogates is one character to each reader of JSON; so both sides are read by one.
    assert json.loads(back) == json.loads(text)
    canonical(f"<json>{back.replace('&', '&amp;').replace('<', '&lt;')}</json>")


@given(NAMES, JSON)
def test_any_element_of_json_comes_back_as_it_was_but_for_the_order_of_keys(name: str, value: Any) -> None:
    first = json_of_element(etree.fromstring(kept(name, json.dumps(value))))
    second = kept(name, first)
    assert json.loads(json_of_element(etree.fromstring(second))) == json.loads(first)
    assert kept(name, json_of_element(etree.fromstring(second))) == second


@given(JSON)
def test_without_types_only_types_and_nulls_are_missing(value: Any) -> None:
    text = json.dumps(value)
    plain = canonical(element_of_json("a", parse_json(text), typed=False))
    assert b"json-types" not in plain.replace(b"<json-types", b"").replace(b"</json-types", b"").replace(
        b'key="json-types"', b""
    )


@pytest.mark.parametrize(
    ("text", "xml"),
    [
        ('{"s": "x", "n": 3, "ok": true}', '<b s="x" n="3" ok="true" json-types="n:number ok:boolean"/>'),
        ('{"by": {"name": "Ann"}, "none": null}', '<b json-types="none:null"><by name="Ann"/></b>'),
        ('{"s": ["a", 2]}', '<b json-types="s:list"><s>a</s><s json-types="number">2</s></b>'),
        ('{"steps": []}', '<b json-types="steps:list"/>'),
        ('{"odd key": 1}', '<b><item key="odd key" json-types="number">1</item></b>'),
        ('{"a b": ["c"]}', '<b><item key="a b" json-types="list"><item>c</item></item></b>'),
        ('[{"key": "x"}]', '<b json-types="list"><item><key>x</key></item></b>'),
        ('{"eid": "5"}', "<b><eid>5</eid></b>"),
        ("{}", '<b json-types="object"/>'),
        ("null", '<b json-types="null"/>'),
        ('"text"', "<b>text</b>"),
        ('{"a": "\\u001b[1m\\\\"}', '<b a="\\u001b[1m\\\\" json-types="a:escaped"/>'),
    ],
)  # fmt: skip
def test_the_element_of_a_text(text: str, xml: str) -> None:
    assert kept("b", text).decode() == xml


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ('<a n="1" eid="4"/>', '{"n": "1"}'),
        ('<a n="1" json-types="n:number"/>', '{"n": 1}'),
        ("<a><to>x</to><to>y</to><by>z</by></a>", '{"to": ["x", "y"], "by": "z"}'),
        ("<a>\n  <b>1</b>\n  <!-- c -->\n</a>", '{"b": "1"}'),
        ('<a subject="s">so <b>bold</b> it is</a>', '{"subject": "s", "b": "bold", "#text": "so  it is"}'),
        ("<a> <!-- c --></a>", '" "'),
        ('<a json-types="number"> 1.50 </a>', "1.50"),
        ('<a n="9999999999999999999999.10" json-types="n:number"/>', '{"n": 9999999999999999999999.10}'),
        ('<a x="1"><x>2</x></a>', '{"x": ["1", "2"]}'),
    ],
)
def test_what_authors_write_is_taken_as_they_mean_it(xml: str, text: str) -> None:
    assert json_of_element(etree.fromstring(xml)) == text


@pytest.mark.parametrize(
    ("xml", "expected"),
    [
        ('<a n="1, &quot;admin&quot;: true" json-types="n:number"/>', "n to be of type number"),
        ('<a n="True" json-types="n:boolean"/>', "n to be of type boolean"),
        ('<a n="NaN" json-types="n:number"/>', "n to be of type number"),
        ('<a json-types="number" n="1">5</a>', "a number alone"),
        ('<a json-types="n:float"/>', "json-types of <a>"),
        ('<a xmlns="urn:x"><b/></a>', "without a namespace"),
        ('<a xmlns:x="urn:x" x:b="1"/>', "without a namespace"),
    ],
)
def test_what_stands_for_no_json_is_refused(xml: str, expected: str) -> None:
    with pytest.raises(JsonError, match=expected):
        json_of_element(etree.fromstring(xml))


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", "[" * 100_000, "[" * 65 + "]" * 65, "[" + "0," * 250_001 + "0]", "{} {}"]
)
def test_what_is_no_json_or_too_much_is_refused(text: str) -> None:
    with pytest.raises(JsonError, match="expected"):
        element_of_json("a", parse_json(text))


def test_the_last_of_equal_keys_counts() -> None:
    assert parse_json('{"a": "1", "a": "2"}') == {"a": "2"}

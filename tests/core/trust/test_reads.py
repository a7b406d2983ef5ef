"""The parts of elements that a value in braces comes from: selected, or read by its predicates (F4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.definitions.reading.values import argument_value
from narval.core.elements.element import Element
from narval.core.trust.reads import Bound, BoundElements, sources

NAMES = {"m": {1: "boss", 2: "ann", 3: "boss"}, "c": {7: "ann", 8: "boss"}}


def element(eid: int, name: str) -> Element:
    return Element(
        eid, f'<x from="{name}"><body kind="k">text <b>of</b> {eid}</body><i n="{eid}"/></x>'.encode()
    )


def bound() -> BoundElements:
    return {
        variable: [Bound(element(eid, name), frozenset([(eid, "")])) for eid, name in named.items()]
        for variable, named in NAMES.items()
    } | {"now": [Bound(Element(0, b"<now>later</now>"))]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("$m/@from", {(1, "@from"), (2, "@from"), (3, "@from")}),
        ("$m[2]/@from", {(2, "@from")}),
        ("$m[last()]/body", {(3, "body")}),
        ("$m[1]/body/text()", {(1, "body/text()")}),
        ("$m[1]/body/b/text()", {(1, "body/b/text()")}),
        ("$m[1]/body/@kind", {(1, "body/@kind")}),
        ("$m[1]", {(1, "")}),
        ("$m[@from='ann']/body", {(2, "@from"), (2, "body")}),
        ("$c[@from = $m[2]/@from]/i/@n", {(7, "@from"), (7, "i/@n"), (2, "@from")}),
        ("$m[@from='nobody']/body", set()),
        ("concat($m[1]/@from, ' ', $now)", {(1, "@from")}),
        ("if($m[2]/@from = 'ann', 'yes', $c[1]/i/@n)", {(2, "@from"), (7, "i/@n")}),
        ("if($m[@from='nobody'], 'yes', 'no')", set()),
        ("string-join($c/i/@n, ', ')", {(7, "i/@n"), (8, "i/@n")}),
        ("time-between($now, $m[1]/@from)", {(1, "@from")}),
        ("count($m[@from='boss'])", {(1, ""), (3, ""), (1, "@from"), (3, "@from")}),
        ("($m | $c)[1]/@from", {(eid, "") for named in NAMES.values() for eid in named}),
        ("$m[1]/body/../@from", {(1, ""), (2, ""), (3, "")}),
        ("$m[1]/@eid", set()),
        ("$m[@from='ann']/@eid", {(2, "@from")}),
        ("$m[self::x][i/@n = 2]/body", {(2, "i/@n"), (2, "body")}),
        ("$m/i[@n = 2]/@n", {(2, "")}),
        ("$m[* = 'x']/@from", set()),
        ("$m[.//b = 'of'][2]/@from", {(2, "")}),
        ("$m[not(@from = $c[1]/@from)]/@from", {(1, "@from"), (3, "@from"), (7, "@from")}),
        ("$m[string()]/@from", {(1, ""), (2, ""), (3, "")}),
        ("normalize-space($m[3]/@from)", {(3, "@from")}),
        ("($m[2]/body)[1]", {(2, "body")}),
    ],
)
def test_a_value_comes_from_what_it_selects_and_what_its_predicates_read(
    value: str, expected: set[tuple[int, str]]
) -> None:
    assert sources(argument_value(value), bound(), "UTC") == expected


@pytest.mark.parametrize(("value", "expected"), [("$m/@*", {(4, "@eid")}), ("$m/node()", {(4, "text()")})])
def test_what_has_the_form_of_the_home_comes_from_its_element(
    value: str, expected: set[tuple[int, str]]
) -> None:
    """An attribute `eid` of another namespace, and a comment, are of whoever wrote the element."""
    strange = Element(4, b"<x xmlns:z='urn:z' z:eid='mallory'><!-- mallory --></x>")
    elements = {"m": [Bound(strange, frozenset([(4, "")]))]}
    assert sources(argument_value(value), elements, "UTC") == expected
    assert "mallory" in argument_value(value).text_for({"m": [strange]}, "UTC")


def test_what_is_a_copy_of_a_part_comes_from_that_part() -> None:
    item = Bound(Element(0, b"<item n='1'><to>you</to></item>"), frozenset([(5, "list/item")]))
    assert sources(argument_value("$each/to"), {"each": [item]}, "UTC") == {(5, "list/item/to")}
    assert sources(argument_value("$each[@n='1']/to"), {"each": [item]}, "UTC") == {
        (5, "list/item/@n"),
        (5, "list/item/to"),
    }


steps = st.sampled_from(["/@from", "/body", "/i/@n", "/body/b", ""])
predicates = st.sampled_from(
    [
        "",
        "[1]",
        "[2]",
        "[last()]",
        "[@from='boss']",
        "[@from = $c/@from]",
        "[i/@n > 1]",
        "[not(@from='ann')][1]",
    ]
)
roots = st.sampled_from(["$m", "$c"])
paths = st.builds("{}{}{}".format, roots, predicates, steps)


@given(paths)
def test_no_other_element_has_a_say(value: str) -> None:
    """An element of the same name with another text in its place does not alter the value."""
    expression, before = argument_value(value), bound()
    elements = {name: [one.element for one in some] for name, some in before.items()}
    text = expression.text_for(elements, "UTC")
    used = {eid for eid, _ in sources(expression, before, "UTC")}
    for name, some in elements.items():
        for at, one in enumerate(some):
            if one.eid and one.eid not in used:
                without = {
                    **elements,
                    name: [*some[:at], Element(one.eid, one.xml.replace(b"text", b"other")), *some[at + 1 :]],
                }
                assert expression.text_for(without, "UTC") == text

"""The languages of texts in dataflows: conditions, columns, formats, tuples, rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.kinds.dataflow.language.conditions import (
    AttributeTest,
    InlineTuples,
    JoinTest,
    TextFormat,
    joined,
    parse_text,
    placed,
)
from narval.kinds.dataflow.language.rules import TextError


@pytest.mark.parametrize(
    ("language", "text", "value"),
    [
        (
            "select",
            "price <= 500000 AND city != 'Los Angeles' and \"a b\"=west",
            (
                AttributeTest("price", "<=", 500000),
                AttributeTest("city", "<>", "Los Angeles"),
                AttributeTest("a b", "=", "west"),
            ),
        ),
        ("select", "x > -2.5", (AttributeTest("x", ">", -2.5),)),
        ("select", "x = '7'", (AttributeTest("x", "=", "7"),)),
        ("join", "", ()),
        ("join", "a = b AND c<d", (JoinTest("a", "=", "b"), JoinTest("c", "<", "d"))),
        ("columns", "a AND b, 'c d'", ("a", "b", "c d")),
        ("tuple-format", "%a%: 100%% %b%", TextFormat(("", ": 100% ", ""), ("a", "b"))),
        ("text-format", "%s of %s 5%%", TextFormat(("", " of ", " 5%"), ("", ""))),
        ("rows", '[{"a": 1}, {"b": null, "a": "x"}]', InlineTuples(("a", "b"), ((1, None), ("x", None)))),
    ],
)
def test_a_text_is_a_value(language: str, text: str, value: Any) -> None:
    assert parse_text(language, text) == value


@pytest.mark.parametrize(
    ("language", "text", "at", "message"),
    [
        ("select", "", 0, "expected the name of an attribute, found the end"),
        ("select", "price <", 7, "expected a number, or a text in quotes, found the end"),
        ("select", "c = Los Angeles", 8, "expected AND, found 'Angeles'; put quotes around"),
        ("select", "c = 'Los", 4, "close its quotes"),
        ("select", "AND = 3", 0, "put quotes around it"),
        ("join", "a = 'b' c", 8, "expected AND, found 'c'"),
        ("columns", "a, b, a", 6, "expected another attribute, found 'a' again"),
        ("tuple-format", "x %a", 2, "expected % after the name"),
        ("text-format", "%% %d", 3, "expected %s, or %% for a percent sign, found '%d'"),
        ("rows", "[1]", 0, "expected a JSON array of objects"),
        ("rows", '[{"a": [1]}]', 0, "a: expected a text, a number"),
        ("rules", "a b", 0, "expected a line with the selector of records"),
        ("rules", "record //tr", 11, "expected a line for an attribute"),
        ("rules", "record //tr\nrecord //td", 12, "expected one record"),
        ("rules", "record //tr\na [", 14, "is no XPath"),
        ("rules", 'record //tr\na Number("1.234") b', 14, "such as 1.234,56 or 1,234.56, found '1.234'"),
        ("rules", "record //tr\na Number(euro) b", 14, "an example in quotes"),
        ("rules", "record css:", 7, "expected a selector after css:"),
        ("rules", "record //tr\nprice", 12, "expected a selector after 'price'"),
    ],
)
def test_a_fault_in_a_text_has_its_place(language: str, text: str, at: int, message: str) -> None:
    with pytest.raises(TextError) as error:
        parse_text(language, text)
    assert error.value.at == at
    assert message in error.value.message


def test_TA40_rules_are_lines_with_a_selector() -> None:
    rules = parse_text(
        "rules", "# homes\nrecord css:tr\n price number .//b\nString json:$.a\nnext xpath://a[@rel]"
    )
    assert (rules.record.language, rules.record.text) == ("css", "tr")
    assert [(one.name, one.type, one.selector.language, one.selector.text) for one in rules.fields] == [
        ("price", "Number", "xpath", ".//b"),
        ("String", "String", "json", "$.a"),
        ("next", "String", "xpath", "//a[@rel]"),
    ]


def test_TA10_a_format_of_the_examples_needs_no_second_percent_sign() -> None:
    found = parse_text("tuple-format", "where u='%url' and %City% 100%% %", any_case=True)
    assert found == TextFormat(("where u='", "' and ", " 100% %"), ("url", "City"), any_case=True)
    assert placed(("URL", "a"), "url", any_case=True) == 0
    assert placed(("URL", "Url"), "url", any_case=True) is None
    assert placed(("URL",), "url") is None


def test_a_join_has_a_column_once_that_is_joined_by_equality() -> None:
    tests = parse_text("join", "address = address AND price < limit")
    left, right = ("address", "price", "name"), ("address", "name", "limit")
    assert joined(left, right, tests) == ("address", "price", "name", "right_name", "limit")


@given(
    st.sampled_from(("select", "join", "columns", "tuple-format", "text-format", "rows", "rules")),
    st.text(alphabet="ab =<>!,'\"%s{}[]:1.-\nANDrecord", max_size=40),
)
def test_no_text_raises_anything_but_its_fault(language: str, text: str) -> None:
    error = None
    try:
        parse_text(language, text)
    except TextError as raised:
        error = raised
    assert error is None or 0 <= error.at <= len(text)

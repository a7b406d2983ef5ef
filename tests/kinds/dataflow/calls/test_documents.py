"""Inputs and outputs of dataflows as XML (T20, T21, TA35)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from narval.core.elements.element import Element
from narval.kinds.dataflow.calls.documents import (
    GatheredOutputs,
    inputs_of,
    number_in,
    relation_element,
    tuple_in,
)
from narval.kinds.dataflow.engine.network.batches import FlowError, Relation, TupleBatch
from narval.kinds.dataflow.language.definition import DataflowDefinition
from tests.kinds.dataflow.calls.driving import load

PLAN = """
PLAN P {
  INPUT: TupleStream houses, Number most, String city;
  OUTPUT: TupleStream out;
  BODY { sprintf("%s %s", (most, city) : text) print(text) project("price", houses : out) }
}
"""


@pytest.fixture
def definition(tmp_path: Path) -> DataflowDefinition:
    found, _ = load(tmp_path, PLAN)
    return found


def session(text: str) -> etree._Element:
    return etree.fromstring(f"<session>{text}</session>")


HOUSES = '<relation name="houses"><tuple><price type="Number">7</price><at>a</at></tuple></relation>'
REST = '<value name="most">900</value><value name="city">Oslo</value>'


def test_T21_inputs_are_read_by_their_types(definition: DataflowDefinition) -> None:
    found = inputs_of(definition, session(HOUSES + REST))
    houses = found["houses"]
    assert isinstance(houses, Relation)
    assert list(houses.batches()) == [TupleBatch(("price", "at"), [(7, "a")], "houses")]
    assert (found["most"], found["city"]) == (900, "Oslo")


def test_elements_named_as_an_input_are_its_tuples(definition: DataflowDefinition) -> None:
    others = [Element(1, b'<houses price="5"/>'), Element(2, b"<mail/>"), Element(3, b'<houses price="6"/>')]
    houses = inputs_of(definition, session(REST), others)["houses"]
    assert isinstance(houses, Relation)
    assert [row for batch in houses.batches() for row in batch.rows] == [("5",), ("6",)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (REST, 'expected the input houses; give it by <relation name="houses">'),
        (HOUSES + REST + REST, "the input most is given twice; give it once"),
        ("<valu/>", "expected <value> or <relation> in a session, found <valu>"),
        (HOUSES + '<value name="city"/>', "expected the input most; give it by --set most=…"),
        (HOUSES + REST + '<value name="x">1</value>', "found 'x'"),
        (HOUSES.replace("houses", "city") + REST, "expected a value for the input city, found a relation"),
        (
            HOUSES + '<value name="most">many</value><value name="city"/>',
            "expected a plain number, as 1250.50, for the input most",
        ),
    ],
)
def test_TA35_inputs_that_are_wrong_are_told(definition: DataflowDefinition, text: str, why: str) -> None:
    with pytest.raises(FlowError, match=why):
        inputs_of(definition, session(text))


VALUES = (
    st.none()
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1)
    | st.integers(-(10**9), 10**9)
)


@given(st.lists(st.fixed_dictionaries({"a": VALUES, "b": VALUES}), min_size=1))
def test_what_comes_out_can_go_in_again(tuples: list[dict[str, object]]) -> None:
    rows = [(one["a"], one["b"]) for one in tuples]
    root = etree.fromstring(relation_element("out", [TupleBatch(("a", "b"), rows)]))
    again = [tuple_in(node) for node in root]
    kept = [{name: value for name, value in one.items() if value is not None} for one in tuples]
    assert [{name: value for name, value in one.items() if value != ""} for one in again] == kept


def test_results_that_are_too_large_are_refused() -> None:
    gathered = GatheredOutputs(10)
    gathered.tuples("out", TupleBatch(("a",), [("12345",)]))
    with pytest.raises(FlowError, match="larger than 10 bytes"):
        gathered.tuples("out", TupleBatch(("a",), [("123456",)]))


def test_T43_what_only_a_void_try_gave_is_taken_back() -> None:
    gathered = GatheredOutputs(10)
    gathered.tuples("out", TupleBatch(("a",), [(1,), (1,), (2,)]))
    gathered.over("out", False)
    gathered.retracted("out", TupleBatch(("a", "b"), [(1, None), (2, None)]))
    gathered.tuples("out", TupleBatch(("b", "a"), [("12345678", None)]))
    ((_, document),) = gathered.documents()
    assert [tuple_in(one) for one in etree.fromstring(document)] == [{"a": 1}, {"b": "12345678"}]


def test_a_cancelled_output_is_none_and_an_empty_one_is_empty() -> None:
    gathered = GatheredOutputs(100)
    gathered.over("none", True)
    gathered.over("empty", False)
    assert list(gathered.documents()) == [("empty", b'<relation name="empty"/>')]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        (" 7.0\n", 7),
        ("-1.5", -1.5),
        ("+0.25", 0.25),
        ("1e3", 1000.0),
        ("1250.00", 1250),
        ("9007199254740993", 9007199254740993),
        ("100000000000000000000", 1e20),
        ("1.00000000000000000000e23", 1e23),
        ("3.14159265358979323846", 3.141592653589793),
        ("0.1e-99999999999999999999", 0.0),
    ],
)
def test_plain_numbers_are_read(text: str, number: float | None) -> None:
    assert number_in(text) == number


@pytest.mark.parametrize(
    "text",
    [
        *("12,50", "1,250", "1,250.00", "1.250,00", "1.250.000", "1 250", "1\u00a0250", "1'250", "1_250"),
        *("27.00 €", "€27", "$ 5", "5 %", "80 m²", "approx. 5", "5-7", "5/7", "(5)", "5 000 000"),
        *("٣", "２", "½", "0x10", "1e", "e5", "5.", ".5", "--5", "1e400", "nan", "inf", "x", "true", ""),
        *("123456789012345678901", "123456789012345678901234567890.5", "9007199254740993.5"),
    ],
)
def test_a_text_that_is_no_plain_number_is_never_read_as_one(text: str) -> None:
    assert number_in(text) is None


def test_an_input_that_says_it_is_a_number_must_be_one() -> None:
    root = etree.fromstring('<home><price type="Number">27.00 €</price></home>')
    with pytest.raises(FlowError) as raised:
        tuple_in(root)
    assert str(raised.value) == "expected a plain number, as 1250.50, for price, found '27.00 €'"
    assert tuple_in(etree.fromstring('<home><price type="Number"> </price></home>')) == {"price": None}
    rows = [(True, float("inf"), 1.5)]
    (again,) = etree.fromstring(relation_element("out", [TupleBatch(("a", "b", "c"), rows)]))
    assert tuple_in(again) == {"a": "true", "b": "inf", "c": 1.5}

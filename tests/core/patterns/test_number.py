"""Numbers are read as lxml reads them, to the last bit."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from narval.core.patterns.xpath1 import number

written = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.text(alphabet="0123456789.-+eE \t\n", max_size=12),
    st.text(alphabet="٣0१", max_size=3),
)


@given(text=written)
def test_a_number_is_read_as_lxml_reads_it(text: str) -> None:
    element = etree.Element("e", a=text)
    expected = element.xpath("number(@a)")
    assert number(text) == expected or (math.isnan(number(text)) and math.isnan(expected))


@given(text=st.from_regex(r"[0-9]{1,18}(\.[0-9]{1,18})?", fullmatch=True))
def test_a_number_in_a_pattern_is_the_number_of_its_text(text: str) -> None:
    assert number(text) == etree.Element("e").xpath(text)


@pytest.mark.parametrize(
    "text", ["", " ", "x", "-", "+1", "1 2", "- 1", "0x10", "1,5", "Infinity", "NaN", "٣"]
)
def test_a_text_that_is_no_number_is_nan(text: str) -> None:
    assert math.isnan(number(text))


def test_white_space_around_a_number_does_not_count() -> None:
    assert number(" 10\n") == 10
    assert number("\t-1.5 ") == -1.5

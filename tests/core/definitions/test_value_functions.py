"""What functions of values give: a choice, texts joined, dates, moments, lengths and weekdays (N42)."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.definitions.reading.durations import length_of, read_duration
from narval.core.definitions.reading.values import argument_value
from narval.core.elements.element import Element
from narval.core.errors import PatternError


def value(text: str, zone: str = "Europe/Paris", **attributes: str) -> str:
    """The text of an expression of `$m`, an element of these attributes."""
    written = " ".join(f'{name}="{of}"' for name, of in attributes.items())
    return argument_value(text).text_for({"m": [Element(1, f"<m {written}/>".encode())]}, zone)


@pytest.mark.parametrize(
    ("since", "length", "expected"),
    [
        ("2026-03-02", "14d", "2026-03-16"),
        ("2026-03-02", "-14d", "2026-02-16"),
        ("2026-03-06", "1d mon-fri", "2026-03-09"),
        ("2026-03-09", "-1d mon-fri", "2026-03-06"),
        ("2026-03-07", "1d mon-fri", "2026-03-10"),
        ("2026-03-02", "36h", "2026-03-03T12:00"),
        ("2026-03-28T10:00", "1d", "2026-03-29T10:00"),
        ("2026-03-28T10:00", "24h", "2026-03-29T11:00"),
        ("2026-03-28T09:00Z", "1d", "2026-03-29T10:00+02:00"),
        (" 2026-03-28T10:00:30 ", "-15m", "2026-03-28T09:45:30"),
        ("2026-03-06T16:00", "4h mon-fri 9-12,13-17", "2026-03-09T12:00"),
        ("2026-03-09T10:00", "-4h mon-fri 9-12,13-17", "2026-03-06T14:00"),
        ("2026-03-08T10:00", "-42h mon-fri 9-17", "2026-02-27T15:00"),
        ("2026-03-09T10:00", "-1h 9-17", "2026-03-09T09:00"),
        ("0001-01-01T10:00", "-9h 9-17", ""),
        ("9999-12-31", "1w", ""),
        ("0001-01-01", "-1d", ""),
        ("soon", "1d", ""),
        ("", "1d", ""),
    ],
)
def test_N42_a_length_is_added_to_a_date(since: str, length: str, expected: str) -> None:
    assert value(f"date-add($m/@at, '{length}')", at=since) == expected


@pytest.mark.parametrize(
    ("since", "until", "days", "expected"),
    [
        ("2026-03-02", "2026-03-16", "", "14"),
        ("2026-03-16", "2026-03-02", "", "-14"),
        ("2026-03-02T23:00", "2026-03-03T01:00", "", "1"),
        ("2026-03-06", "2026-03-09", ", 'mon-fri'", "1"),
        ("2026-03-09", "2026-03-06", ", 'mon-fri'", "-1"),
        ("2026-03-07", "2026-03-08", ", 'mon-fri'", "0"),
        ("2026-03-01", "2026-04-01", ", 'sat,sun'", "9"),
        ("2026-03-02", "soon", "", "NaN"),
    ],
)
def test_N42_days_are_counted_between_dates(since: str, until: str, days: str, expected: str) -> None:
    assert value(f"days-between($m/@a, $m/@b{days})", a=since, b=until) == expected


@given(st.dates(date(1990, 1, 1), date(2090, 1, 1)), st.integers(-800, 800))
def test_N42_working_days_are_those_that_a_calendar_counts(first: date, ahead: int) -> None:
    last = first + timedelta(ahead)
    low, high = sorted((first, last))
    working = sum((low + timedelta(day)).weekday() < 5 for day in range((high - low).days))
    said = value("days-between($m/@a, $m/@b, 'mon-fri')", a=f"{first}", b=f"{last}")
    assert int(said) == (working if ahead >= 0 else -working)


@given(st.dates(date(1990, 1, 1), date(2090, 1, 1)), st.integers(1, 500))
def test_N42_what_is_added_lies_between(first: date, days: int) -> None:
    then = value(f"date-add($m/@a, '{days}d mon-fri')", a=f"{first}")
    assert value("days-between($m/@a, $m/@b, 'mon-fri')", a=f"{first}", b=then) == str(days)


MAIL = b"<m n='3' empty=''><to>ann <b>b</b></to><to> ben</to><to>1</to></m>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("string-join($m/to, ', ')", "ann b,  ben, 1"),
        ("string-join($m/to[3], ', ')", "1"),
        ("string-join($m/none, ', ')", ""),
        ("string-join($m/to/b | $m/@n, $m/@n)", "33b"),
        ("if($m/to = 'ann b', 'yes', 'no')", "yes"),
        ("if($m/@n > 3, 'yes', 'no')", "no"),
        ("if($m/@empty, 'there', 'not')", "there"),
        ("if(string($m/@empty), 'said', 'silent')", "silent"),
        ("if($m/none, $m/none, 'none')", "none"),
        ("if(number($m/to[2]), 1, 2)", "2"),
        ("if($m/@n, $m/@n + 1, 0)", "4"),
        ("if($m/to, $m/to[2], 'x')", " ben"),
        ("if($m/@n = 3, if($m/to[4], 'four', 'fewer'), '')", "fewer"),
        ("concat('<', if($m/@n != 3, 'a', 'b'), '>')", "<b>"),
    ],
)
def test_N42_texts_are_joined_and_chosen(text: str, expected: str) -> None:
    assert argument_value(text).text_for({"m": [Element(1, MAIL)]}, "UTC") == expected


@pytest.mark.parametrize(
    ("since", "until", "expected", "seconds"),
    [
        ("2026-03-02T10:00", "2026-03-02T12:30", "2h 30m", "9000"),
        ("2026-03-02T12:30", "2026-03-02T10:00", "-2h 30m", "-9000"),
        ("2026-03-02T10:00", "2026-03-03T11:00:05", "1d 1h 5s", "90005"),
        ("2026-03-28T10:00", "2026-03-29T10:00", "23h", "82800"),
        ("2026-03-28", "2026-03-30", "2d", "169200"),
        ("2026-03-02T10:00Z", "2026-03-02T11:00", "0s", "0"),
        ("2026-03-02", "soon", "", "NaN"),
        ("", "2026-03-02", "", "NaN"),
    ],
)
def test_N42_the_time_between_two_moments_is_a_length(
    since: str, until: str, expected: str, seconds: str
) -> None:
    assert value("time-between($m/@a, $m/@b)", a=since, b=until) == expected
    assert value("seconds-between($m/@a, $m/@b)", a=since, b=until) == seconds


@given(st.integers(1, 10**9))
def test_N42_a_length_that_is_told_is_read_again(seconds: int) -> None:
    assert read_duration(length_of(float(seconds))) == seconds


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("string-join($m/@a)", r"string-join\(\) takes 2 arguments, found 1", 1),
        ("string-join('a', ', ')", r"string-join\(\) takes nodes", 13),
        ("if($m, 1)", r"if\(\) takes 3 arguments, found 2", 1),
        ("$m[if(@n, 1, 0)]", r"if\(\) is outside of a predicate", 4),
        ("time-betwen($m, $m)", r"did you mean time-between\(\)", 1),
    ],
)
def test_N42_what_is_no_such_function_is_told_at_its_place(text: str, message: str, column: int) -> None:
    with pytest.raises(PatternError, match=message) as raised:
        argument_value(text)
    assert raised.value.column == column

"""What `date-add` and `days-between` give of dates, moments, lengths and weekdays (N42)."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.definitions.reading.values import argument_value
from narval.core.elements.element import Element


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

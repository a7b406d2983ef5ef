"""When appointments are: lengths by the calendar, over shifts of the clock, of some weekdays (N41)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.appointment import Appointment, Length
from narval.kinds.recipe.language.vocabulary import WORDS
from tests.examples import examples

PARIS = ZoneInfo("Europe/Paris")
WORKDAYS = ((0, 4),)


def length(text: str) -> Length:
    read: Length = WORDS["time"].attributes["after"].read(text)
    return read


def after(
    text: str, since: str, weekdays: tuple[tuple[int, ...], ...] = (), zone: str = "Europe/Paris"
) -> str:
    begun = datetime.fromisoformat(since)
    begun = begun if begun.tzinfo else begun.replace(tzinfo=ZoneInfo(zone))
    moment = Appointment("", length(text), weekdays).moment(begun.timestamp(), zone)
    assert moment is not None
    return datetime.fromtimestamp(moment, ZoneInfo(zone)).isoformat()


@pytest.mark.parametrize(
    ("text", "since", "expected"),
    [
        ("3d", "2026-11-20T10:00", "2026-11-23T10:00:00+01:00"),
        ("3d", "2026-03-27T10:00", "2026-03-30T10:00:00+02:00"),
        ("72h", "2026-03-27T10:00", "2026-03-30T11:00:00+02:00"),
        ("1w", "2026-10-20T10:00:00.5", "2026-10-27T10:00:00.500000+01:00"),
        ("1d 2h", "2026-03-28T00:30", "2026-03-29T03:30:00+02:00"),
        ("90", "2026-11-20T10:00", "2026-11-20T10:01:30+01:00"),
        ("1d", "2026-03-28T02:30", "2026-03-29T03:00:00+02:00"),
        ("1d", "2026-10-24T02:30", "2026-10-25T02:30:00+02:00"),
        ("1h", "2026-10-25T02:30+02:00", "2026-10-25T02:30:00+01:00"),
        ("1d", "2026-10-25T02:30+01:00", "2026-10-26T02:30:00+01:00"),
    ],
)
def test_N41_days_go_by_the_clock_on_the_wall_and_hours_are_time_that_passes(
    text: str, since: str, expected: str
) -> None:
    assert after(text, since) == expected


@pytest.mark.parametrize(
    ("text", "since", "expected"),
    [
        ("3d", "2026-11-20T10:00", "2026-11-25T10:00"),  # from Friday to Wednesday
        ("1w", "2026-11-20T10:00", "2026-12-01T10:00"),  # seven days that count
        ("3d", "2026-11-21T15:00", "2026-11-26T00:00"),  # counted from Monday
        ("4h", "2026-11-21T15:00", "2026-11-23T04:00"),
        ("4h", "2026-11-20T22:00", "2026-11-23T02:00"),
        ("4h", "2026-11-20T20:00", "2026-11-23T00:00"),
        ("1d 12h", "2026-11-19T18:00", "2026-11-23T06:00"),
        ("50h", "2026-11-19T00:00", "2026-11-23T02:00"),
    ],
)
def test_N41_of_some_weekdays_only_these_count(text: str, since: str, expected: str) -> None:
    assert after(text, since, WORKDAYS).startswith(expected)


@given(
    st.sets(st.integers(0, 6), min_size=1),
    st.integers(1, 60),
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),
)
@settings(max_examples=examples(100), deadline=None)
def test_N41_days_that_count_are_counted_as_on_the_fingers(
    counted: set[int], days: int, begun: datetime
) -> None:
    weekdays = tuple((day, day) for day in sorted(counted))
    day, clock = begun.date(), begun.time()
    if day.weekday() not in counted:
        clock = datetime.min.time()
        while day.weekday() not in counted:
            day += timedelta(1)
    for _ in range(days):
        day += timedelta(1)
        while day.weekday() not in counted:
            day += timedelta(1)
    found = Appointment("", Length(days), weekdays).moment(begun.replace(tzinfo=UTC).timestamp(), "UTC")
    assert found == pytest.approx(datetime.combine(day, clock, UTC).timestamp(), abs=1e-5)


def test_N41_a_moment_past_the_calendar_never_comes() -> None:
    last = datetime.combine(date(9999, 12, 1), datetime.min.time(), UTC).timestamp()
    assert Appointment("", Length(40)).moment(last, "UTC") is None

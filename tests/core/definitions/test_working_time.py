"""Working time: hours of weekdays, and the moment at which so much of it has passed."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narval.core.definitions.appointment import WorkingTime
from narval.core.definitions.reading.times import interval

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


def after(text: str, since: str) -> str:
    moment = interval(text).moment(at(since), "Europe/Berlin")
    assert moment is not None
    return datetime.fromtimestamp(moment, BERLIN).strftime("%a %d %b %H:%M")


@pytest.mark.parametrize(
    ("length", "since", "moment"),
    [
        ("4h mon-fri 9-17", "2026-11-27T10:00", "Fri 27 Nov 14:00"),
        ("4h mon-fri 9-17", "2026-11-27T15:00", "Mon 30 Nov 11:00"),
        ("4h mon-fri 9-17", "2026-11-28T12:00", "Mon 30 Nov 13:00"),
        ("2h mon-fri 9-17", "2026-11-27T15:00", "Fri 27 Nov 17:00"),
        ("4h mon-fri 9-12,13:30-17", "2026-11-27T11:00", "Fri 27 Nov 16:30"),
        ("40h mon-fri 9-17", "2026-11-23T09:00", "Fri 27 Nov 17:00"),
        ("41h mon-fri 9-17", "2026-11-23T09:00", "Mon 30 Nov 10:00"),
        ("8h 22-24", "2026-11-27T23:00", "Tue 01 Dec 23:00"),
        ("400h mon-fri 9-17", "2026-11-23T09:00", "Fri 29 Jan 17:00"),
    ],
)
def test_a_length_passes_in_working_hours_alone(length: str, since: str, moment: str) -> None:
    assert after(length, since) == moment


def test_an_hour_that_the_clock_skips_does_not_pass() -> None:
    assert after("3h 1-5", "2026-03-29T00:00") == "Sun 29 Mar 05:00"


@pytest.mark.parametrize(
    "text", ["1d mon-fri 9-17", "4h mon-fri 17-9", "4h 9-17,12-18", "4h 9-25", "4h 9-9", "9999h mon 9-9:01"]
)
def test_what_is_no_working_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"hours|working time"):
        interval(text)


@given(
    st.integers(0, 23),
    st.integers(1, 24),
    st.sets(st.integers(0, 6)),
    st.integers(0, 10**9),
    st.integers(1, 10**6),
)
def test_as_much_of_it_has_passed_as_was_asked(
    first: int, last: int, weekdays: set[int], since: int, seconds: int
) -> None:
    if first >= last:
        return
    working = WorkingTime(((first * 3600, last * 3600),), tuple(sorted(weekdays)))
    moment = working.after(since, seconds, "UTC")
    passed, day = 0.0, since - since % 86400 - 86400
    while day <= moment:
        if not weekdays or datetime.fromtimestamp(day, ZoneInfo("UTC")).weekday() in weekdays:
            passed += max(0.0, min(moment, day + last * 3600) - max(since, day + first * 3600))
        day += 86400
    assert passed == seconds

"""The grammar of reminders: when they come, over shifts of the clock, and what is said of faults (C6)."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narval.core.definitions.appointment import Length, read_date
from narval.core.definitions.reading.said_times import ReminderError
from narval.core.definitions.reminder import (
    Reminder,
    iso_moment,
    later,
    may_be_reminder,
    next_reminder,
    read_reminder,
    read_snooze,
    reminder_in,
    shown_moment,
)
from tests.examples import examples

ZONES = ("Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC")
PARIS = "Europe/Paris"
A_SUNDAY = "2026-11-29T13:00:30"


def moment(text: str, zone: str = PARIS) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def read(line: str, now: str = A_SUNDAY, zone: str = PARIS) -> tuple[str, str, str]:
    """The moment of a reminder by the clock on the wall, what it is of, and when it comes again."""
    reminder = read_reminder(line, moment(now, zone), zone)
    return iso_moment(reminder.at, zone), reminder.text, reminder.every


@pytest.mark.parametrize(
    ("line", "at", "text"),
    [
        ("remind me at 17:30: call Ben", "2026-11-29T17:30:00+01:00", "call Ben"),
        ("Remind me at 5:30 PM to call Ben", "2026-11-29T17:30:00+01:00", "call Ben"),
        ("remind me at 9: 30 eggs", "2026-11-30T09:00:00+01:00", "30 eggs"),
        ("remind me 12am, sleep", "2026-11-30T00:00:00+01:00", "sleep"),
        ("remind at 17:30 tomorrow: x", "2026-11-30T17:30:00+01:00", "x"),
        ("in 2h: call Ben", "2026-11-29T15:00:30+01:00", "call Ben"),
        ("remind me in half an hour: tea", "2026-11-29T13:30:30+01:00", "tea"),
        ("remind me in 1 h and 30 minutes tea", "2026-11-29T14:30:30+01:00", "tea"),
        ("remind me in 3 days: x", "2026-12-02T13:00:30+01:00", "x"),
        ("tomorrow 9:00: dentist", "2026-11-30T09:00:00+01:00", "dentist"),
        ("tomorrow: dentist", "2026-11-30T09:00:00+01:00", "dentist"),
        ("remind me today at noon: x", None, "2026-11-29 12:00 is past"),
        ("on monday: x", "2026-11-30T09:00:00+01:00", "x"),
        ("remind me sunday 12:00: x", "2026-12-06T12:00:00+01:00", "x"),
        ("remind me sun 14:00: x", "2026-11-29T14:00:00+01:00", "x"),
        ("on 2026-12-24: gifts", "2026-12-24T09:00:00+01:00", "gifts"),
        ("remind me on 2026-12-24 9:30 gifts", "2026-12-24T09:30:00+01:00", "gifts"),
        ("remind me 24 December at 7pm: gifts", "2026-12-24T19:00:00+01:00", "gifts"),
        ("remind me december 24 2027: gifts", "2027-12-24T09:00:00+01:00", "gifts"),
        ("remind me on 28 november: last year's", "2027-11-28T09:00:00+01:00", "last year's"),
        ("remind me on 29 february: leap", "2028-02-29T09:00:00+01:00", "leap"),
        ("remind me at 17:30: and on sunday", "2026-11-29T17:30:00+01:00", "and on sunday"),
        ("remind me at 17:30: call Ben tomorrow", "2026-11-29T17:30:00+01:00", "call Ben tomorrow"),
        ("remind me at 17:30 to buy: milk", "2026-11-29T17:30:00+01:00", "buy: milk"),
        ("remind me at 17:30\nto buy: milk", "2026-11-29T17:30:00+01:00", "buy: milk"),
        ("  remind\u00a0me at 17:30 :call Ben ", "2026-11-29T17:30:00+01:00", "call Ben"),
    ],
)
def test_a_reminder_is_read(line: str, at: str | None, text: str) -> None:
    if at is None:
        with pytest.raises(ReminderError, match=text):
            read(line)
    else:
        assert read(line) == (at, text, "")


@pytest.mark.parametrize(
    ("line", "at", "every", "then"),
    [
        ("every day: x", "2026-11-30T09:00:00+01:00", "day 9:00", "2026-12-01T09:00:00+01:00"),
        ("every monday 8:00: x", "2026-11-30T08:00:00+01:00", "mon 8:00", "2026-12-07T08:00:00+01:00"),
        ("every wed, mon 7pm: x", "2026-11-30T19:00:00+01:00", "mon,wed 19:00", "2026-12-02T19:00:00+01:00"),
        ("every weekday 8:00: x", "2026-11-30T08:00:00+01:00", "weekday 8:00", "2026-12-01T08:00:00+01:00"),
        ("every 2h: x", "2026-11-29T15:00:30+01:00", "2h", "2026-11-29T17:00:30+01:00"),
        ("every 1w: x", "2026-12-06T13:00:30+01:00", "7d", "2026-12-13T13:00:30+01:00"),
        ("every 1.5m: x", "2026-11-29T13:02:00+01:00", "1m 30s", "2026-11-29T13:03:30+01:00"),
    ],
)  # fmt: skip
def test_a_reminder_comes_again(line: str, at: str, every: str, then: str) -> None:
    assert read(line) == (at, "x", every)
    again = next_reminder(every, read_date(at, PARIS), PARIS)
    assert again is not None
    assert iso_moment(again, PARIS) == then


@pytest.mark.parametrize(
    ("line", "now", "at"),
    [
        # The clock goes forward on 29 March at 2:00: what it skips comes right after.
        ("remind me at 2:30: x", "2026-03-29T01:00:00", "2026-03-29T03:00:00+02:00"),
        ("remind me in 2h: x", "2026-03-29T01:00:00", "2026-03-29T04:00:00+02:00"),
        ("remind me in 1d: x", "2026-03-28T13:00:00", "2026-03-29T13:00:00+02:00"),
        # The clock goes back on 25 October at 3:00: of what it shows twice, the first that is to come.
        ("remind me at 2:30: x", "2026-10-25T01:00:00", "2026-10-25T02:30:00+02:00"),
        ("remind me at 2:30: x", "2026-10-25T02:45:00", "2026-10-25T02:30:00+01:00"),
        ("remind me at 2:15: x", "2026-10-25T03:10:00", "2026-10-26T02:15:00+01:00"),
    ],
)
def test_the_clock_on_the_wall_counts(line: str, now: str, at: str) -> None:
    assert read(line, now)[0] == at


def test_the_zone_is_that_of_the_person() -> None:
    assert read("remind me at 17:30: x", "2026-11-29T08:00:00", "America/New_York")[0].endswith(
        "17:30:00-05:00"
    )


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("remind me", "expected a time, such as `remind me at 17:30: call Ben`"),
        ("remind me to call Ben at 5", "found 'to call Ben at 5'"),
        ("remind me at", "expected a time of day after `at`, such as `at 17:30`"),
        ("remind me at 25:00: x", "from 0:00 to 23:59"),
        ("remind me at 13:00 pm: x", "from 0:00 to 23:59"),
        ("remind me at 17:3: x", "a time of day after `at`"),
        ("remind me in: x", "expected a length of time after `in`, such as `in 20m`"),
        ("remind me in 10s: x", "at least a minute"),
        ("remind me in 1.5 days: x", "of whole days"),
        ("remind me in 2 months: x", "write a date, such as `on 2027-01-31`"),
        ("remind me in 40000 days: x", "no more than a hundred years"),
        ("remind me every now and then: x", "after `every`, such as `every day 8:00`"),
        ("remind me every monday at: x", "after `at`"),
        ("remind me on 24: x", "after `on`, such as `on 2026-12-24`"),
        ("remind me on 2026-02-30: x", "there is no day 2026-02-30"),
        ("remind me on 30 february: x", "there is no day 2024-02-30"),
        ("remind me on 0000-01-01: x", "there is no day 0000-01-01"),
        ("remind me on 2126-12-24: x", "a hundred years ahead"),
        ("remind me on 2020-01-01: x", "2020-01-01 9:00 is past, it is 2026-11-29 13:00 now"),
        ("remind me at 17:30", "what to remind you of"),
        ("remind me on saturday and sunday: x", "one time, and a colon after it"),
        ("remind me saturday, sunday 9:00: x", "found ', sunday 9:00: x'"),
        ("remind me every monday to friday 8:00: x", "found 'to friday 8:00: x'"),
        ("remind me every day at 8:00 and 20:00: x", "found 'and 20:00: x'"),
        ("remind me every day at 8 until 24 december x", "found 'until 24 december x'"),
        ("remind me at 8 p.m.: x", "found 'p.m.: x'"),
        ("remind me at 8.30: x", "found '.30: x'"),
        ("remind me at 9 in the evening: x", "found 'in the evening: x'"),
        ("remind me tomorrow evening to read", "found 'evening to read'"),
        ("remind me friday 4 december: x", "found '4 december: x'"),
        ("remind me december 24, 2027: x", "found ', 2027: x'"),
        ("remind me at 9:00 CET: x", "found 'CET: x'"),
        ("remind me at 9:00+02:00: x", "found '+02:00: x'"),
        ("remind me tomorrow to call Ben at 17:30", "found 'to call Ben at 17:30'"),
        ("remind me at 9 to call Ben on Friday.", "found 'to call Ben on Friday.'"),
        ("remind me at 17:30: ", "what to remind you of"),
        ("remind me at 17:30: " + "x" * 2001, "at most 2,000 characters, found 2,001"),
    ],
)
def test_a_fault_is_told_in_a_line_with_an_example(line: str, fault: str) -> None:
    with pytest.raises(ReminderError) as raised:
        read(line)
    assert fault in str(raised.value)


@pytest.mark.parametrize(
    "line", ["sun: is shining", "in Paris: rain", "at home", "tomorrow 9:00 dentist", "every x"]
)
def test_other_lines_are_about_something_else(line: str) -> None:
    assert reminder_in(line, moment(A_SUNDAY), PARIS) is None


def test_a_reminder_is_put_off_by_a_length() -> None:
    assert read_snooze("1h") == read_snooze("in 60 minutes") == Length(0, 3600.0)
    assert (
        iso_moment(later(moment("2026-03-28T13:00:00"), read_snooze("1d"), PARIS), PARIS)
        == "2026-03-29T13:00:00+02:00"
    )
    for text in ("", "soon", "1h x", "0m"):
        with pytest.raises(ReminderError):
            read_snooze(text)


def test_a_moment_is_shown_as_on_a_telephone() -> None:
    now = moment(A_SUNDAY)
    for at, shown in (
        ("2026-11-29T07:05:00", "today 7:05"),
        ("2026-11-28T17:30:00", "yesterday 17:30"),
        ("2026-11-30T09:00:00", "tomorrow 9:00"),
        ("2026-12-24T09:00:00", "Thu 24 Dec 9:00"),
        ("2027-12-24T09:00:00", "24 Dec 2027 9:00"),
    ):
        assert shown_moment(moment(at), now, PARIS) == shown


# --- whatever is written ------------------------------------------------------------------------------------

NOW = st.floats(0.0, 4e9)
CLOCKS = st.tuples(st.integers(0, 23), st.integers(0, 59))
WORDS = st.sampled_from(
    ["remind", "me", "at", "in", "on", "every", "17:30", "9", "am", ":", "tomorrow", "monday", ",", "and",
     "2h", "1", "days", "half", "an", "hour", "2026-12-24", "24", "december", "feb", "29", "2028", "noon",
     "to", "x", "99:99", "months", "weekday", "0m", "9999-12-31", "٣", "é"]
)  # fmt: skip
LINES = st.text(max_size=60) | st.lists(WORDS, max_size=9).map(" ".join)


@settings(max_examples=examples(300))
@given(LINES, NOW, st.sampled_from(ZONES))
def test_any_text_is_a_reminder_to_come_or_a_fault_in_a_line(line: str, now: float, zone: str) -> None:
    reminder = None
    try:
        reminder = read_reminder(line, now, zone)
    except ReminderError as error:
        fault = str(error)
    if reminder is None:
        assert fault.isprintable()
        return
    assert now < reminder.at
    assert reminder.text
    assert read_date(iso_moment(reminder.at, zone), "UTC") == reminder.at
    if reminder.every:
        again = next_reminder(reminder.every, reminder.at, zone)
        assert again is None or again > reminder.at
    assert reminder_in(line, now, zone) in (None, reminder)
    assert may_be_reminder(line) or reminder_in(line, now, zone) is None


@settings(max_examples=examples(200))
@given(CLOCKS, NOW, st.sampled_from(ZONES))
def test_a_clock_is_shown_within_a_day_or_skipped(clock: tuple[int, int], now: float, zone: str) -> None:
    reminder = read_reminder(f"at {clock[0]}:{clock[1]:02}: x", now, zone)
    wall = datetime.fromtimestamp(reminder.at, ZoneInfo(zone))
    assert now < reminder.at <= now + 2 * 86400  # Samoa skipped a whole day
    before = datetime.fromtimestamp(reminder.at - 1, ZoneInfo(zone))
    assert (wall.hour, wall.minute) == clock or wall.utcoffset() != before.utcoffset()


@settings(max_examples=examples(200))
@given(st.sets(st.integers(0, 6), min_size=1), CLOCKS, NOW, st.sampled_from(ZONES))
def test_what_comes_again_comes_on_its_days_and_is_read_again(
    days: set[int], clock: tuple[int, int], now: float, zone: str
) -> None:
    names = ("Monday", "tue", "wed", "THURSDAY", "fri", "sat", "sunday")
    line = f"every {' and '.join(names[day] for day in days)} {clock[0]}:{clock[1]:02}: x"
    reminder = read_reminder(line, now, zone)
    assert reminder == Reminder("x", reminder.at, reminder.every)
    at = reminder.at
    for _ in range(3):
        wall, before = (datetime.fromtimestamp(at - ago, ZoneInfo(zone)) for ago in (0, 1))
        if wall.utcoffset() == before.utcoffset():
            assert wall.weekday() in days
            assert (wall.hour, wall.minute, wall.second) == (*clock, 0)
        following = next_reminder(reminder.every, at, zone)
        assert following is not None
        assert following > at
        at = following


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("every", ["1d", "3d", "1d 1h"])
def test_days_of_two_thousand_years_are_not_counted_one_by_one(every: str, zone: str) -> None:
    now, began = moment("2026-12-01T09:30:00", zone), time.process_time()
    at = next_reminder(every, moment("0026-12-01T09:00:00", zone), zone, now)
    assert time.process_time() - began < 1
    assert at is not None
    assert now < at <= now + 3 * 86_400
    if every == "1d":
        assert iso_moment(at, zone)[:19] == "2026-12-02T09:00:00"


def test_what_is_past_the_calendar_is_a_fault_or_none() -> None:
    end = datetime(9999, 12, 31, 12, tzinfo=UTC).timestamp()
    assert next_reminder("10000d", end, "UTC") is None
    with suppress(ReminderError):
        read_reminder("every day 8:00: x", end, "UTC")
    with pytest.raises(ReminderError):
        read_reminder("in 10000 days: x", end, "UTC")

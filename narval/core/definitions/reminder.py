"""Reminders as people write them: a time, and what to be reminded of.

    [remind [me]] TIME [:] TEXT

    TIME   = ["at"] CLOCK [DAY] | DAY [["at"] CLOCK] | "in" LENGTH
           | "every" DAYS [["at"] CLOCK] | "every" LENGTH

CLOCK, DAY, DAYS and LENGTH are those of `reading/said_times.py`.

Without "remind" a line is a reminder if it starts with "at", "in", "on", "every", "today" or "tomorrow", has
the colon, and is valid: other lines are about something else. A day without a time means nine in the morning.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from math import ceil, floor

import msgspec

from narval.core.definitions.appointment import DAY, Appointment, Length
from narval.core.definitions.reading import said_times
from narval.core.definitions.reading.durations import length_of
from narval.core.definitions.schedule import Ranges, Time, schedule_of
from narval.core.definitions.wall import MONTHS, WEEKDAYS, zone_named

MOST_TEXT = 2_000
"""The most characters of a reminder's text."""

EXAMPLE = "remind me at 17:30: call Ben"
"""A reminder as written; the example in faults about the whole line."""

_REMIND = said_times.word(r"remind(?:\s+me)?")
_BEGINNING = said_times.word("at|in|on|every|today|tomorrow")
"""The words that start a reminder without "remind"."""
_TO = re.compile(r"to\s+|that\s+", re.IGNORECASE)
_HUNDRED_YEARS = 36_525 * 86_400
_SHIFTS = 2
"""Days by which, at most, shifts of the clock make a number of days longer or shorter."""


class Reminder(msgspec.Struct, frozen=True):
    """A text to tell somebody at a moment."""

    text: str
    at: float
    """The moment, in whole seconds since 1970."""
    every: str = ""
    """The times at which it recurs, as parsed by `next_reminder`; "" if it comes once."""


def read_reminder(line: str, now: float, zone: str) -> Reminder:
    """The reminder that a line asks for at a moment, in the named time zone. Raises ReminderError."""
    return _Reading(line, now, zone).reminder()


def reminder_in(line: str, now: float, zone: str) -> Reminder | None:
    """The reminder that a line asks for; None if the line is about something else.

    Raises ReminderError for one that starts with "remind" and cannot be parsed.
    """
    reading = _Reading(line, now, zone)
    if reading.sees(_REMIND):
        return reading.reminder()
    if reading.sees(_BEGINNING):
        with suppress(said_times.ReminderError):
            reminder = reading.reminder()
            return reminder if reading.has_colon else None
    return None


def may_be_reminder(line: str) -> bool:
    """True for a line that starts like a reminder; `reminder_in` decides."""
    start = line.lstrip()
    return bool(_REMIND.match(start) or (":" in start and _BEGINNING.match(start)))


def next_reminder(every: str, last: float, zone: str, now: float | None = None) -> float | None:
    """The next moment of a recurring reminder, in seconds since 1970, in the named time zone: the first after
    the `last` one, and after `now`; None if it is past the calendar.

    `every` is the value of that attribute, such as "mon 8:00". A length, such as "2h", is added to the last
    moment as often as needed to be after now. Raises ReminderError, a ValueError.
    """
    least = last if now is None else max(last, now)
    reading = _Reading(every, last, zone)
    length = reading.length()
    if length is None:
        days = reading.days()
        clock = reading.clock(bare=True) or said_times.MORNING
        reading.end("every")
        return schedule_of((_time(days, clock),), zone).next(least)
    reading.end("every")
    if not length.days:
        return last + (floor((least - last) / length.seconds) + 1) * length.seconds
    skipped = max(0, floor((least - last) / (length.days * DAY + length.seconds)) - _SHIFTS)
    moment = _after(last, Length(skipped * length.days, skipped * length.seconds), zone)
    while moment is not None and moment <= least:
        moment = _after(moment, length, zone)
    return moment


def read_snooze(text: str) -> Length:
    """Parse the time by which a reminder is put off, such as "1h". Raises ReminderError."""
    reading = _Reading(text, 0.0, "UTC")
    reading.take(said_times.IN)
    length = reading.length()
    if length is None:
        raise reading.expected("a length of time", "1h", "20m", "1d")
    reading.end("a length of time")
    return length


def later(since: float, length: Length, zone: str) -> float:
    """The moment a length after another. Raises ReminderError if it is past the calendar."""
    moment = _after(since, length, zone)
    if moment is None:
        raise said_times.ReminderError("that is past the calendar; write a nearer time")
    return moment


def shown_moment(at: float, now: float, zone: str) -> str:
    """A moment in the style of a telephone: `today 17:30`, `Mon 30 Nov 8:00`, `24 Dec 2027 9:00`."""
    there = zone_named(zone)
    when, today = datetime.fromtimestamp(at, there), datetime.fromtimestamp(now, there).date()
    clock = f"{when.hour}:{when.minute:02}"
    names = {today: "today", today + said_times.A_DAY: "tomorrow", today - said_times.A_DAY: "yesterday"}
    month = MONTHS[when.month - 1][:3].capitalize()
    if (day := names.get(when.date())) is not None:
        return f"{day} {clock}"
    if abs((when.date() - today).days) < 300:
        return f"{WEEKDAYS[when.weekday()][:3].capitalize()} {when.day} {month} {clock}"
    return f"{when.day} {month} {when.year} {clock}"


def iso_moment(at: float, zone: str) -> str:
    """A moment in ISO 8601, with the offset of the time zone."""
    return datetime.fromtimestamp(at, zone_named(zone)).isoformat(timespec="seconds")


def _after(since: float, length: Length, zone: str) -> float | None:
    return Appointment("", length).moment(since, zone)


def _time(weekdays: Ranges, clock: tuple[int, int]) -> Time:
    hour, minute = clock
    return Time(seconds=((0, 0),), minutes=((minute, minute),), hours=((hour, hour),), weekdays=weekdays)


class _Reading(said_times.SaidTime):
    """A reminder, read from left to right, at a moment in a time zone."""

    has_colon = False

    def reminder(self) -> Reminder:
        """The reminder that the line asks for. Raises ReminderError."""
        is_asked = self.take(_REMIND) is not None
        at, every = self._every() if self.take(said_times.EVERY) else (self._once(), "")
        text = self._text(is_asked)
        if at - self.now > _HUNDRED_YEARS:
            raise said_times.ReminderError("that is more than a hundred years ahead; write a nearer date")
        return Reminder(text, float(ceil(at)), every)

    def _once(self) -> float:
        """The moment of a one-time reminder."""
        if self.take(said_times.IN):
            return self._ahead()
        has_at = self.take(said_times.AT) is not None
        clock = self.clock(bare=has_at)
        if has_at and clock is None:
            raise self.expected("a time of day after `at`", "at 17:30", "at 9am", "at noon")
        days = self.day()
        if clock is None:
            if days is None:
                raise self.expected("a time", EXAMPLE, "in 2h", "tomorrow 9:00", "on 2026-12-24")
            clock = self.clock_of_day() or said_times.MORNING
        return self.first(days or self.from_today(), clock)

    def _ahead(self) -> float:
        length = self.length()
        if length is None:
            raise self.expected("a length of time after `in`", "in 20m", "in 2h", "in 3 days")
        return later(self.now, length, self.zone_name)

    def _every(self) -> tuple[float, str]:
        """The first moment of a recurring reminder, and its written form."""
        length = self.length()
        if length is not None:
            parts = [f"{length.days}d"] if length.days else []
            every = " ".join([*parts, length_of(length.seconds)] if length.seconds else parts)
        else:
            days = self.days()
            hour, minute = self.clock_of_day() or said_times.MORNING
            every = f"{_days_as_written(days)} {hour}:{minute:02}"
        moment = next_reminder(every, self.now, self.zone_name)
        if moment is None:
            raise said_times.ReminderError("that is past the calendar; write a nearer time")
        return moment, every

    def _text(self, is_asked: bool) -> str:
        """The text of the reminder: the rest of the line, unless that may be more of the time."""
        rest = self.rest
        if self.may_go_on():
            raise self.expected("one time, and a colon after it", EXAMPLE)
        self.has_colon = rest.startswith(":")
        if rest[:1] in (":", ","):
            rest = rest[1:].lstrip()
        elif is_asked:
            rest = _TO.sub("", rest, count=1) if _TO.match(rest) else rest
        if not rest:
            raise said_times.ReminderError(f"say what to remind you of after the time: `{EXAMPLE}`")
        if len(rest) > MOST_TEXT:
            raise said_times.ReminderError(
                f"expected a text of at most {MOST_TEXT:,} characters, found {len(rest):,}"
            )
        return rest


def _days_as_written(days: Ranges) -> str:
    if not days:
        return "day"
    return "weekday" if days == ((0, 4),) else ",".join(WEEKDAYS[first][:3] for first, _ in days)

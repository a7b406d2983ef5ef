"""Times in everyday words: a clock, a length, a day, recurring days, read from left to right.

    CLOCK  = 17:30 | 5:30pm | 9am | noon | midnight | a bare hour after "at"
    DAY    = "today" | "tomorrow" | ["on"] WEEKDAY | ["on"] DATE
    DATE   = 2026-12-24 | 24 december [2026] | december 24 [2026]
    DAYS   = "day" | "weekday" | WEEKDAY {("," | "and") WEEKDAY}
    LENGTH = {NUMBER UNIT}, from minutes to weeks

A reading of the wall clock has the usual moment (`wall.py`), but if the wall shows it twice, the first moment
still to come counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta, tzinfo

from narval.core.definitions.appointment import Length
from narval.core.definitions.reading.durations import read_length
from narval.core.definitions.schedule import Ranges
from narval.core.definitions.wall import MONTHS, WEEKDAYS, moment_of, zone_named
from narval.core.source.tokens import short

MORNING = (9, 0)
"""The hour and minute of a day named without a time."""
A_DAY = timedelta(1)
_LEAST_SECONDS = 60.0


def _names(names: tuple[str, ...]) -> str:
    """A pattern for names in full, or by their first three letters."""
    return "|".join(f"{name[:3]}(?:{name[3:]})?" for name in names)


def word(text: str) -> re.Pattern[str]:
    """The pattern for one or more words that end there, ignoring case."""
    return re.compile(rf"(?:{text})(?![\w-])", re.IGNORECASE | re.ASCII)


AT, _ON, IN, EVERY, _AND = map(word, ("at", "on", "in", "every", "and"))
_CLOCK = word(
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?!:?\d)(?:\s*(?P<half>[ap])m)?|(?P<full>\d{1,2})\s*(?P<of>[ap])m"
    r"|(?P<word>noon|midnight)"
)
_HOUR = word(r"(?P<hour>\d{1,2})(?!:\d)")
_ISO = word(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_WEEKDAY, _MONTH = word(_names(WEEKDAYS)), word(_names(MONTHS))
_MONTHDAY = word(r"(\d{1,2})(?:st|nd|rd|th)?")
_YEAR = word(r"\d{4}(?!:\d)")
_RELATIVE = word("today|tomorrow")
_DAILY = word("day|weekday")
_PART = re.compile(
    r"(?P<number>\d{1,12}(?:\.\d{1,9})?|(?:an?|half\s+an)(?=\s))\s*"
    r"(?P<unit>s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?)(?![a-z_])",
    re.IGNORECASE | re.ASCII,
)
_LONGER = word(r"(?:\d+|an?)\s+(?:months?|years?)|months?|years?")
_DAY_PART = r"(?:in\s+the\s+|at\s+|this\s+)?(?:morning|noon|afternoon|evening|night|midnight)"
_DAY = rf"today|tomorrow|tonight|(?:{_names(WEEKDAYS)})s?"
_MORE = (
    # What follows at once.
    rf"[^\s:,]|[\s,]*(?:\d|(?:(?:in|from|to)\s+\d\S*|and|or|until|till|through|every|daily|weekdays?|weekends?"
    rf"|o'clock|[ap]\.m|utc|gmt|(?:to\s+)?(?:{_DAY}|{_DAY_PART}|{_names(MONTHS)}))(?![\w-]))",
    # A colon only later.
    r"(?!,|\s+(?:to|that)\s)[^\n:]*:(?:\s|$)",
    # Another time at the end: `to call Ben at 9`.
    rf".*\s(?:at\s+\d{{1,2}}(?::\d\d)?(?:\s*[ap]m)?|noon|midnight|{_DAY})[.!]?$",
)
_MORE_TIME = re.compile("|".join(map("(?:{})".format, _MORE)), re.IGNORECASE | re.ASCII)
"""Text that may belong to the time before it, which no colon ends."""
_BLANK = re.compile(r"[^\S\n]")


class ReminderError(ValueError):
    """A fault of a reminder, as one line with an example."""


class SaidTime:
    """A line read from left to right, at a moment in a time zone."""

    def __init__(self, line: str, now: float, zone: str) -> None:
        self._line, self._at = _BLANK.sub(" ", line).strip(), 0
        self.now, self.zone_name = now, zone
        self._zone: tzinfo = zone_named(zone)
        self._wall = datetime.fromtimestamp(now, self._zone).replace(tzinfo=None)

    def days(self) -> Ranges:
        """Read the days of a week, as in a schedule; empty for all. Raises ReminderError."""
        daily = self.take(_DAILY)
        if daily is not None:
            return () if daily[0].lower() == "day" else ((0, 4),)
        days = set[int]()
        while (weekday := self.take(_WEEKDAY)) is not None:
            days.add(_named(weekday[0], WEEKDAYS))
            before = self._at
            if not (self._comma() | (self.take(_AND) is not None)):
                break
            if not self.sees(_WEEKDAY):
                self._at = before
                break
        if not days:
            raise self.expected(
                "days or a length after `every`", "every day 8:00", "every monday 8:00", "every 2h"
            )
        return () if len(days) == 7 else tuple((day, day) for day in sorted(days))

    def length(self) -> Length | None:
        """Read a length of time; None if there is none. Raises ReminderError."""
        if self.sees(_LONGER):
            raise ReminderError(
                "months and years differ in length: "
                "write a date, such as `on 2027-01-31`, or weeks: `in 8 weeks`"
            )
        parts = list[str]()
        while (part := self.take(_PART)) is not None:
            number = part["number"].lower()
            number = number if number[0].isdigit() else "0.5" if number.startswith("half") else "1"
            parts.append(f"{number}{part['unit'][0].lower()}")
            before = self._at
            if not (self._comma() | (self.take(_AND) is not None)) or not self.sees(_PART):
                self._at = before
        if not parts:
            return None
        with suppress(ValueError):
            days, seconds = read_length(" ".join(parts))
            if days or seconds >= _LEAST_SECONDS:
                return Length(days, seconds)
        raise ReminderError(
            "expected a length of at least a minute, of whole days and of no more than a hundred years, "
            f"such as `2h` or `1d 12h`; found {' '.join(parts)!r}"
        )

    def clock(self, *, bare: bool) -> tuple[int, int] | None:
        """Read the hour and minute of a time of day; None if there is none. `bare` allows an hour alone.

        Raises ReminderError.
        """
        before = self._at
        read = self.take(_CLOCK)
        if read is None:
            read = self.take(_HOUR) if bare else None
            if read is None:
                return None
            hour, minute, half = int(read["hour"]), 0, None
        elif read["word"]:
            return (12, 0) if read["word"].lower() == "noon" else (0, 0)
        else:
            hour, minute = int(read["hour"] or read["full"]), int(read["minute"] or 0)
            half = read["half"] or read["of"]
        if minute > 59 or hour > 23 or (half and not 1 <= hour <= 12):
            self._at = before
            raise self.expected("a time of day from 0:00 to 23:59", "17:30", "5:30pm")
        if half:
            hour = hour % 12 + (12 if half.lower() == "p" else 0)
        return hour, minute

    def clock_of_day(self) -> tuple[int, int] | None:
        """Read the time of day after a day; None if it is left out."""
        has_at = self.take(AT) is not None
        clock = self.clock(bare=has_at)
        if has_at and clock is None:
            raise self.expected("a time of day after `at`", "at 17:30", "at 9am", "at noon")
        return clock

    def day(self) -> Iterator[date] | None:
        """The days named by the line, nearest first; None if no day is named."""
        has_on = self.take(_ON) is not None
        relative = None if has_on else self.take(_RELATIVE)
        today = self._wall.date()
        if relative is not None:
            return iter([today if relative[0].lower() == "today" else today + A_DAY])
        if (weekday := self.take(_WEEKDAY)) is not None:
            ahead = (_named(weekday[0], WEEKDAYS) - today.weekday()) % 7
            return iter([today + ahead * A_DAY, today + (ahead + 7) * A_DAY])
        if (iso := self.take(_ISO)) is not None:
            year, month, day = map(int, iso.groups())
            return iter([_date(year, month, day)])
        if (days := self._day_of_month()) is not None:
            return days
        if has_on:
            raise self.expected(
                "a date or a weekday after `on`", "on 2026-12-24", "on 24 december", "on monday"
            )
        return None

    def _day_of_month(self) -> Iterator[date] | None:
        """The days of a date with a month name; None if there is none."""
        before = self._at
        day = self.take(_MONTHDAY)
        month = self.take(_MONTH)
        if month is not None and day is None:
            day = self.take(_MONTHDAY) if not self.sees(_CLOCK) else None
        if month is None or day is None:
            self._at = before
            return None
        number, of = _named(month[0], MONTHS) + 1, int(day[1])
        year = self.take(_YEAR)
        if year is not None:
            return iter([_date(int(year[0]), number, of)])
        _date(2024, number, of)  # a leap year: a day that exists in no year is a fault
        return _each_year(self._wall.year, number, of)

    def from_today(self) -> Iterator[date]:
        """Today and tomorrow."""
        today = self._wall.date()
        return iter([today, today + A_DAY])

    def first(self, days: Iterator[date], clock: tuple[int, int]) -> float:
        """The first future moment at which the wall clock shows that time on one of these days."""
        hour, minute = clock
        for day in days:
            reading = datetime.combine(day, datetime.min.time()) + timedelta(hours=hour, minutes=minute)
            for moment in _moments(reading, self._zone):
                if moment > self.now:
                    return moment
        written = f"{self._wall:%Y-%m-%d} {self._wall.hour}:{self._wall.minute:02}"
        past = f"{day} {hour}:{minute:02} is past, it is {written} now"
        raise ReminderError(f"{past}; write a later time, such as `tomorrow 9:00`")

    @property
    def rest(self) -> str:
        """The rest of the line, not read yet."""
        return self._line[self._blanks() :]

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read a match of a pattern, after blanks; None if something else comes next."""
        match = pattern.match(self._line, self._blanks())
        if match is not None:
            self._at = match.end()
        return match

    def end(self, what: str) -> None:
        """Raise ReminderError unless the whole line was read."""
        if self.rest:
            raise self.expected(f"the end of {what}")

    def expected(self, what: str, *examples: str) -> ReminderError:
        """The fault of a line in which something else was expected next."""
        rest = self.rest
        such = f", such as {', '.join(f'`{example}`' for example in examples)}" if examples else ""
        return ReminderError(f"expected {what}{such}; found {repr(short(rest)) if rest else 'nothing'}")

    def may_go_on(self) -> bool:
        """True if the time may go on in words that are not read, so that it is not known."""
        return not self.rest.startswith(":") and _MORE_TIME.match(self._line, self._at) is not None

    def sees(self, pattern: re.Pattern[str]) -> bool:
        """True if a match of a pattern comes next."""
        return pattern.match(self._line, self._blanks()) is not None

    def _comma(self) -> bool:
        at = self._blanks()
        if self._line[at : at + 1] != ",":
            return False
        self._at = at + 1
        return True

    def _blanks(self) -> int:
        at = self._at
        while self._line[at : at + 1].isspace():
            at += 1
        return at


def _named(written: str, names: tuple[str, ...]) -> int:
    """The index of the first name that starts with the first three letters written."""
    return next(at for at, name in enumerate(names) if name.startswith(written[:3].lower()))


def _date(year: int, month: int, day: int) -> date:
    """Make a calendar date. Raises ReminderError."""
    try:
        return date(year, month, day)
    except ValueError:
        written = f"{year:04}-{month:02}-{day:02}"
        raise ReminderError(f"there is no day {written}; write one such as `on 2026-12-24`") from None


def _each_year(first: int, month: int, day: int) -> Iterator[date]:
    """The dates of a day of the year, this year's first; 29 February comes within eight years."""
    for year in range(first, first + 9):
        with suppress(ValueError):
            yield date(year, month, day)


def _moments(reading: datetime, zone: tzinfo) -> Iterator[float]:
    """The moments at which the wall clock shows a reading: two if it is doubled, the one after the gap if it
    is skipped.
    """
    yield moment_of(reading, zone)
    second = reading.replace(tzinfo=zone, fold=1)
    moment = second.timestamp()
    if datetime.fromtimestamp(moment, zone).replace(tzinfo=None) == reading:
        yield moment

"""Schedule: the next moment allowed by recurring dates (N25, table 2.9).

The date is computed here. APScheduler's `CronTrigger` takes 50 us for it, this code a few, and ten thousand
dates may be due in one second; `CronTrigger` also lacks yeardays, and fires twice in a doubled hour. It is
the oracle of the tests.

Theory of operation. The values of a field are the bits of a number: "the first value from n on" is a shift.
The Gregorian calendar has fourteen kinds of year (leap or not, times the weekday of 1 January) and repeats
after 400: the matching days are one number of 366 bits for each kind, and the years with any such day one
number of 10,000 bits. So 29 February on a Monday costs as much as tomorrow, and a date that never comes is
zero.

Daylight saving. A date is a reading of the wall clock, and each reading has one moment (`wall.py`). A
schedule fires at the moments of the matching readings. It follows that

- 02:30 in a gap from 02:00 to 03:00 fires at 03:00, as does every other reading skipped there: one moment, so
  the schedule fires once for the gap, however many seconds, minutes or `time` nodes of it were skipped, and a
  schedule that would have fired at 03:00 anyway (`minutes="*"`) does not fire once more;
- a doubled hour fires in its first pass only, whatever the fields: `minutes="*"` is silent in the second.

A whole day may be skipped (Samoa, 30 December 2011) or half an hour doubled (Lord Howe) by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import pairwise
from math import floor
from typing import Literal

import msgspec
from msgspec.structs import replace

from narval.core.definitions.wall import moment_of, shift, zone_named

Days = tuple[int, ...]
"""For each kind of year the matching days; bit n is day n of the year."""

_SHORTEST, _LONGEST = (
    (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31),
    (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31),
)
_FIRST_YEAR, _LAST_YEAR = 2, 9999
"""The possible years: in year 1 a zone west of Greenwich has moments that `datetime` cannot represent."""
_FIRST_MOMENT = -62135510400
"""2 January of year 1: nothing can come before it."""
_DISTINCT = 4096
"""The number of distinct texts that are cached."""


# --- the calendar, as bits ------------------------------------------------------------------------------


def _span(first: int, last: int) -> int:
    """The bits from `first` to `last`."""
    return (1 << last + 1) - (1 << first)


def _union(bits: Iterable[int]) -> int:
    union = 0
    for part in bits:
        union |= part
    return union


def _values(ranges: Ranges, least: int, most: int) -> int:
    """The values of a field as bits; an empty field means all."""
    if not ranges:
        return _span(least, most)
    return _union(_part(part, least, most) for part in ranges if part[1] >= least)


def _part(part: tuple[int, ...], least: int, most: int) -> int:
    """The values of one range, from `least` to `most`."""
    first, last, *steps = part
    if not steps:
        return _span(max(first, least), min(last, most))
    return _union(1 << value for value in range(first, last + 1, steps[0]) if least <= value <= most)


def _from(bits: int, least: int) -> int:
    """The lowest value that is at least `least`, or -1."""
    rest = bits >> least
    return least + (rest & -rest).bit_length() - 1 if rest else -1


def _chosen(bits: int, of: Sequence[int]) -> int:
    """The union of the sets of the chosen values: the days of some months, say."""
    return _union(part for value, part in enumerate(of) if bits >> value & 1)


def _months(lengths: Sequence[int]) -> tuple[int, ...]:
    """The days of each month; there is no month 0."""
    ends = [sum(lengths[:month]) for month in range(13)]
    return (0, *(_span(before + 1, end) for before, end in pairwise(ends)))


def _monthdays(lengths: Sequence[int]) -> tuple[int, ...]:
    """The days of a year that are the nth of their month; no month has a day 0."""
    befores = [(sum(lengths[:month]), length) for month, length in enumerate(lengths)]
    return (
        0,
        *(_union(1 << before + day for before, length in befores if day <= length) for day in range(1, 32)),
    )


def _last_monthdays(lengths: Sequence[int]) -> tuple[int, ...]:
    """The days of a year that are the nth of their month, counted from its last."""
    ends = [(sum(lengths[: month + 1]), length) for month, length in enumerate(lengths)]
    return (
        0,
        *(_union(1 << end + 1 - day for end, length in ends if day <= length) for day in range(1, 32)),
    )


_MONTHS = (_months(_SHORTEST), _months(_LONGEST))
_MONTHDAYS = (_monthdays(_SHORTEST), _monthdays(_LONGEST))
_LAST_MONTHDAYS = (_last_monthdays(_SHORTEST), _last_monthdays(_LONGEST))
_WEEKLY = _union(1 << day for day in range(0, 366, 7))
_SEVENTHS = tuple(_WEEKLY << rest for rest in (7, 1, 2, 3, 4, 5, 6))
"""Days with remainder 0, 1 … 6 modulo 7; some are past the end of a year."""

_KINDS = tuple((leap, first) for leap in (0, 1) for first in range(7))
"""The kinds of year: whether it is leap, and the weekday of its 1 January."""


def _ordinal(year: int) -> int:
    """The ordinal of the last day before a year."""
    before = year - 1
    return before * 365 + before // 4 - before // 100 + before // 400


def _kind(year: int) -> int:
    """The index of a year in `_KINDS`; ordinal 1 was a Monday."""
    return (_ordinal(year + 1) - _ordinal(year) - 365) * 7 + _ordinal(year) % 7


_KIND_OF = tuple([_kind(year) for year in range(400)])
"""The kind of a year, by its place among 400."""
_EVERY_400 = _union(1 << start for start in range(0, 10000, 400))
_YEARS_OF = tuple(
    [_EVERY_400 * _union(1 << year for year, of in enumerate(_KIND_OF) if of == kind) for kind in range(14)]
)
"""The years of each kind, from 0 to 9999."""


@lru_cache(_DISTINCT)
def _days(monthdays: Ranges, months: Ranges, yeardays: Ranges, weekdays: Ranges) -> Days:
    """The matching days in each kind of year; cached, because many dates share them."""
    month, monthday = _values(months, 1, 12), _values(monthdays, 1, 31)
    yearday, weekday = _values(yeardays, 1, 366), _values(weekdays, 0, 6)
    from_last = _union(
        1 << -day for part in monthdays for day in range(part[0], min(part[1], -1) + 1, *part[2:])
    )
    in_month = [
        _chosen(monthday, _MONTHDAYS[leap]) | _chosen(from_last, _LAST_MONTHDAYS[leap]) for leap in (0, 1)
    ]
    in_year = [_chosen(month, _MONTHS[leap]) & in_month[leap] & yearday for leap in (0, 1)]
    # Day n of a year that starts on weekday f has weekday (f + n - 1) % 7.
    in_week = [_chosen(weekday, [_SEVENTHS[(day - first + 1) % 7] for day in range(7)]) for first in range(7)]
    return tuple(in_year[leap] & in_week[first] for leap, first in _KINDS)


@lru_cache(_DISTINCT)
def _years(years: Ranges, days: Days) -> int:
    """The years that are allowed and have a matching day."""
    fit = _union(of_kind for of_kind, fitting in zip(_YEARS_OF, days, strict=True) if fitting)
    return fit & _values(years, _FIRST_YEAR, _LAST_YEAR)


# --- dates ----------------------------------------------------------------------------------------------


class _Date:
    """A `time` node as bits: finds readings of the wall clock, without a time zone."""

    __slots__ = ("_days", "_hours", "_midnight", "_minutes", "_seconds", "_years")

    def __init__(self, time: Time) -> None:
        self._seconds = _values(time.seconds, 0, 59)
        self._minutes = _values(time.minutes, 0, 59)
        self._hours = _values(time.hours, 0, 23)
        self._days = _days(time.monthdays, time.months, time.yeardays, time.weekdays)
        self._years = _years(time.years, self._days)
        hour, minute, second = (_from(field, 0) for field in (self._hours, self._minutes, self._seconds))
        self._midnight = hour * 3600 + minute * 60 + second

    def after(self, wall: datetime) -> int | None:
        """The seconds on the wall clock between `wall` and the next matching reading."""
        year, hour, minute, second = wall.year, wall.hour, wall.minute, wall.second
        today, now = wall.toordinal(), hour * 3600 + minute * 60 + second
        day = today - _ordinal(year)
        fitting = self._days[_KIND_OF[year % 400]] if self._years >> year & 1 else 0
        if fitting >> day & 1 and (later := self._later(hour, minute, second)) >= 0:
            return later - now
        if (day := _from(fitting, day + 1)) < 0:
            if (year := _from(self._years, year + 1)) < 0:
                return None
            day = _from(self._days[_KIND_OF[year % 400]], 1)
        return (_ordinal(year) + day - today) * 86400 + self._midnight - now

    def _later(self, hour: int, minute: int, second: int) -> int:
        """The next matching second of the day, or -1; a full minute or hour carries over."""
        if self._hours >> hour & 1:
            if self._minutes >> minute & 1 and (at := _from(self._seconds, second + 1)) >= 0:
                return hour * 3600 + minute * 60 + at
            if (at := _from(self._minutes, minute + 1)) >= 0:
                return hour * 3600 + at * 60 + self._midnight % 60
        if (at := _from(self._hours, hour + 1)) >= 0:
            return at * 3600 + self._midnight % 3600
        return -1


# --- schedules ------------------------------------------------------------------------------------------


class Schedule:
    """The moments of dates in a time zone; of several dates the earliest counts. Equal if dates and zone are.

    The last result is cached: until it comes it is the next one.
    """

    __slots__ = ("_dates", "_fixed", "_kept", "_owed", "times", "zone")

    def __init__(self, times: tuple[Time, ...], zone: tzinfo) -> None:
        self.times = tuple([_anywhere(time) for time in times])
        self.zone = zone
        self._dates = tuple([_Date(time) for time in self.times])
        self._owed = tuple(
            [date for time, date in zip(times, self._dates, strict=True) if time.missed == "once"]
        )
        self._fixed = isinstance(zone, timezone)
        self._kept = (0.0, 0.0)

    def next(self, after: float) -> float | None:
        """The first moment strictly after `after` at which a date matches, or None if there is none."""
        asked, cached = self._kept
        if asked <= after < cached:
            return cached
        moment = self._next(self._dates, after)
        if moment is not None:
            self._kept = (after, moment)
        return moment

    def missed(self, since: float, now: float) -> bool:
        """True if a date was in (since, now]; those with `missed="skip"` do not count."""
        moment = self._next(self._owed, since)
        return moment is not None and moment <= now

    def _next(self, dates: tuple[_Date, ...], after: float) -> float | None:
        try:
            start = floor(max(after, _FIRST_MOMENT))
            wall = datetime.fromtimestamp(start, self.zone)
            if wall.fold:
                # The second pass: as if the first had just ended.
                start = shift(wall) - 1
                wall = datetime.fromtimestamp(start, self.zone)
            aheads = [ahead for date in dates if (ahead := date.after(wall)) is not None]
            return self._moment(start, wall, min(aheads)) if aheads else None
        except (OverflowError, ValueError):  # a moment past the year 9999
            return None

    def _moment(self, start: int, wall: datetime, ahead: int) -> float:
        """The moment when the wall clock, which shows `wall` at `start`, shows `ahead` seconds more: the
        first one, or after a gap.
        """
        if self._fixed:
            return float(start + ahead)
        there = datetime.fromtimestamp(start + ahead, self.zone)
        if not there.fold and there.utcoffset() == wall.utcoffset():
            return float(start + ahead)
        return moment_of(wall + timedelta(0, ahead), self.zone)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return self.times == other.times and self.zone == other.zone

    def __hash__(self) -> int:
        return hash((self.times, self.zone))

    def __repr__(self) -> str:
        return f"<Schedule of {len(self.times)} in {self.zone}>"


@lru_cache(_DISTINCT)
def schedule_of(times: tuple[Time, ...], zone_name: str) -> Schedule:
    """The schedule of these dates in the named time zone; cached for equal dates.

    Raises ValueError for an unknown name.
    """
    return _schedule(tuple([_anywhere(time) for time in times]), zone_name)


def never(times: Iterable[Time]) -> bool:
    """True if none of the dates can come in any year or zone: 30 February, a year before the calendar.

    No dates never come either. Whether a year is past, `Schedule.next` decides: there is no clock here.
    """
    return not any(
        _years(time.years, _days(time.monthdays, time.months, time.yeardays, time.weekdays)) for time in times
    )


_FINEST_FIRST = (
    ("seconds",),
    ("minutes",),
    ("hours",),
    ("monthdays", "weekdays", "yeardays"),
    ("months",),
    ("years",),
)
"""The fields, finest first; the fields of a row are equivalent."""


def finer_omitted(times: Iterable[Time]) -> list[str]:
    """The omitted fields that are finer than the finest given, finest first; each of them is `*`.

    `hours="7"` alone gives seconds and minutes: it is every second from 7 to 8. A date without fields is
    every second on purpose. An explicit `*` counts as omitted.
    """
    omitted = 0
    for time in times:
        stated = (any(getattr(time, name) for name in names) for names in _FINEST_FIRST)
        omitted = max(omitted, next((row for row, is_given in enumerate(stated) if is_given), 0))
    return [names[0] for names in _FINEST_FIRST[:omitted]]


A_DAY = 86_400.0
"""The most by which time zones differ, about."""


def date_warnings(times: Iterable[Time], now: float) -> Iterator[tuple[int, str]]:
    """Warnings about dates at a moment, with their lines: past, or incomplete."""
    for time in times:
        if schedule_of((time,), "UTC").next(now - A_DAY) is None:
            yield time.line, "this date is past and does not come again; correct years"
        elif finer := finer_omitted([time]):
            least = " ".join(f'{name}="{FIELDS[name][0]}"' for name in finer)
            most, are = "{}-{}".format(*FIELDS[finer[0]]), "is" if len(finer) == 1 else "are"
            yield (
                time.line,
                f"this date comes many times, because {' and '.join(finer)} {are} omitted; "
                f'for once, write {least}; for all of them, write {finer[0]}="{most}"',
            )


def _anywhere(time: Time) -> Time:
    """The date without its place in a file, so that equal dates are equal wherever they are written."""
    return time if time.line == 1 else replace(time, line=1)


@lru_cache(_DISTINCT)
def _schedule(times: tuple[Time, ...], zone_name: str) -> Schedule:
    return Schedule(times, zone_named(zone_name))


FIELDS = {
    "seconds": (0, 59),
    "minutes": (0, 59),
    "hours": (0, 23),
    "monthdays": (1, 31),
    "months": (1, 12),
    "years": (-10000, 10000),
    "yeardays": (1, 366),
    "weekdays": (0, 6),
}
"""The fields of a date and their bounds (table 2.9); weekday 0 is Monday."""

Ranges = tuple[tuple[int, ...], ...]
"""The values of a field: from a first to a last, or every nth of these.
Empty means `*`. Days of the month below 0 are counted from the last, which is -1.
"""


class Time(msgspec.Struct, frozen=True, cache_hash=True):
    """A recurring date (table 2.9, N25): a moment matches if all its fields do."""

    seconds: Ranges = ()
    """The seconds of a minute."""
    minutes: Ranges = ()
    """The minutes of an hour."""
    hours: Ranges = ()
    """The hours of a day."""
    monthdays: Ranges = ()
    """The days of a month; negative ones count from its end."""
    months: Ranges = ()
    """The months of a year."""
    years: Ranges = ()
    """The years."""
    yeardays: Ranges = ()
    """The days of a year; negative ones count from its end."""
    weekdays: Ranges = ()
    """The days of a week."""
    missed: Literal["once", "skip"] = "once"
    """The treatment of a missed date: it comes once, late, or not at all."""
    line: int = 1
    """The line in the file."""

    @property
    def text(self) -> str:
        """Its fields, coarsest first."""
        stated = [(name, ranges) for name in reversed(FIELDS) if (ranges := getattr(self, name))]
        words = [f"{name}={_listed(ranges, *FIELDS[name])}" for name, ranges in stated] or ["every second"]
        return " ".join([*words, *(["missed=skip"] if self.missed == "skip" else [])])


def text_of(times: Iterable[Time]) -> str:
    """The fields of several dates, any of which may come."""
    return " or ".join(time.text for time in times)


def _listed(ranges: Ranges, least: int, most: int) -> str:
    """The values of a field with these bounds, in written form."""
    parts = []
    for first, last, *steps in ranges:
        span = "*" if steps and (first, last) == (least, most) else f"{first}-{last}"
        parts.append("/".join((span if first != last else str(first), *map(str, steps))))
    return ",".join(parts)

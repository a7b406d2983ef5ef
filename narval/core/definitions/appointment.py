"""Appointments: moments that come once, counted from the end of the steps before (N41), or from a date in an
element (N45); and the working time that may count.

A length has days and seconds. Days follow the wall clock: three days later it shows the same time. Seconds,
and so minutes and hours, are elapsed time. If only some weekdays count, time on the others does not: a length
that starts on one of those is counted from the start of the next counting day, and its moment is on a
counting day.

Working hours are readings of the wall clock. On a day when the clock is changed, the time that actually
passes counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Literal

import msgspec
from lxml import etree

from narval.core.definitions.schedule import Ranges
from narval.core.definitions.wall import moment_of, zone_named
from narval.core.elements.element import Element, Tree
from narval.core.patterns.pattern import Pattern
from narval.core.patterns.xpath1 import compiled

DAY = 86400
WEEK = 7
MOST_WEEKS = 520
"""The most weeks of working time, ten years; more is refused where it is written."""

_DAY = timedelta(1)
_FORWARD, _BACK = 1, -1

Hours = tuple[tuple[int, int], ...]
"""Parts of a day, each from one second to another, in order and disjoint."""


class WorkingTime(msgspec.Struct, frozen=True):
    """Working time: the `hours` of the counting `weekdays` (0 is Monday); () counts all days."""

    hours: Hours
    weekdays: tuple[int, ...] = ()

    def after(self, since: float, seconds: float, zone: str) -> float:
        """The moment at which `seconds` of it have passed since another; that moment itself for 0 seconds.

        Raises OverflowError and ValueError if it is past the calendar.
        """
        return self.after_in(since, seconds, zone_named(zone))

    def after_in(self, since: float, seconds: float, zone: tzinfo, way: int = _FORWARD) -> float:
        """Like `after`, with the time zone as an object; going the other `way`, they pass before `since`."""
        weeks, left = divmod(seconds, self.a_week)
        if weeks and not left:
            weeks, left = weeks - 1, left + self.a_week
        day = datetime.fromtimestamp(since, zone).date() - way * _DAY
        for start, end in self._parts(day, zone, way):
            start, end = (max(start, since), end) if way == _FORWARD else (start, min(end, since))
            if start < end and left <= end - start:
                moment = start + left if way == _FORWARD else end - left
                return self._weeks_on(moment if left else since, way * int(weeks), zone)
            left -= max(0.0, end - start)
        raise ValueError("past the calendar")

    def _weeks_on(self, moment: float, weeks: int, zone: tzinfo) -> float:
        if not weeks:
            return moment
        wall = datetime.fromtimestamp(moment, zone).replace(tzinfo=None)
        return moment_of(wall + timedelta(weeks * WEEK), zone)

    def _parts(self, day: date, zone: tzinfo, way: int) -> Iterator[tuple[float, float]]:
        """The counting parts of `day` and the days after it, or before it, as moments."""
        while True:
            if not self.weekdays or day.weekday() in self.weekdays:
                midnight = datetime.combine(day, datetime.min.time())
                for first, last in self.hours[::way]:
                    yield tuple(moment_of(midnight + timedelta(0, at), zone) for at in (first, last))  # type: ignore[misc]
            day += way * _DAY

    @property
    def a_week(self) -> float:
        """The seconds of working time in a week."""
        return float(sum(last - first for first, last in self.hours) * (len(self.weekdays) or WEEK))


@lru_cache(maxsize=256)
def days_of(ranges: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The weekdays in the ranges of a date; no ranges mean all, which is ()."""
    return tuple(
        day
        for day in range(WEEK)
        if any(day in range(first, last + 1, *step) for first, last, *step in ranges)
    )


class Length(msgspec.Struct, frozen=True):
    """A length of time: days of the calendar, then seconds."""

    days: int = 0
    seconds: float = 0.0

    @property
    def in_seconds(self) -> float:
        """Its seconds; a day has 24 hours."""
        return self.days * DAY + self.seconds


class Appointment(msgspec.Struct, frozen=True):
    """A moment that a transition sets itself: a length after its in-steps have ended, or a length after, or
    `before`, the date given by the expression `at`.

    If `weekdays` are given, only these count, and if `hours` are given, only these hours; the length then has
    no days. `text` is its written form.
    """

    text: str
    length: Length = Length()
    weekdays: Ranges = ()
    missed: Literal["once", "skip"] = "once"
    at: Pattern | None = None
    before: bool = False
    hours: Hours = ()

    @property
    def variables(self) -> frozenset[str]:
        """The variables of its expression."""
        return self.at.variables if self.at is not None else frozenset()

    def passes_by(self, other: Appointment) -> bool:
        """True if it has passed when another one has, whenever both begin. If only some days or hours count,
        a length may take longer than it says.
        """
        is_alike = (self.weekdays, self.hours) in (((), ()), (other.weekdays, other.hours))
        return is_alike and self.length.in_seconds <= other.length.in_seconds

    def moment(self, since: float, zone: str) -> float | None:
        """The moment counted from another, in the named time zone; None if it is past the calendar."""
        way = _BACK if self.before else _FORWARD
        try:
            if self.hours:
                working = WorkingTime(self.hours, days_of(self.weekdays))
                return working.after_in(since, self.length.seconds, zone_named(zone), way)
            return _computed(since, self.length, _Days(self.weekdays), zone_named(zone), way)
        except (OverflowError, ValueError):
            return None


def text_of(expression: Pattern, elements: Mapping[str, Sequence[Element]]) -> str:
    """The text of an XPath 1.0 expression for the elements of its variables; "" if one is too large, or
    evaluation fails.
    """
    trees = {name: [Tree(element) for element in elements.get(name, ())] for name in expression.variables}
    if any(expression.outgrown_by(tree, None) for named in trees.values() for tree in named):
        return ""
    nodes = {name: [tree.root for tree in named] for name, named in trees.items()}
    try:
        return str(_compiled(expression)(_NOWHERE, **nodes))
    except etree.XPathError:
        return ""


@lru_cache(maxsize=1024)
def _compiled(expression: Pattern) -> etree.XPath:
    return compiled(f"string({expression.text})", expression.namespaces)


_NOWHERE = etree.Element("memory")


def read_date(text: str, zone: str) -> float:
    """Parse an ISO 8601 date and time to seconds since 1970: with an offset, or in the time zone; a date
    alone is its midnight. Raises ValueError.
    """
    date = datetime.fromisoformat(text.strip())
    try:
        return date.timestamp() if date.tzinfo is not None else moment_of(date, zone_named(zone))
    except OverflowError:
        raise ValueError(f"{text} is past the calendar") from None


def counted_days(first: date, last: date, weekdays: Ranges) -> int:
    """The number of counting days from `first` up to but excluding `last`: those of some weekdays, or all."""
    weeks, rest = divmod((last - first).days, 7)
    days = _Days(weekdays)
    return weeks * days.a_week + sum(days.counts(first + day * _DAY) for day in range(rest))


def _midnight(day: date) -> datetime:
    return datetime.combine(day, datetime.min.time())


class _Days:
    """The counting days: those of some weekdays, or all."""

    __slots__ = ("_counted",)

    def __init__(self, weekdays: Ranges) -> None:
        days = days_of(weekdays)
        self._counted = [not weekdays or day in days for day in range(WEEK)]

    @property
    def all(self) -> bool:
        return all(self._counted)

    @property
    def a_week(self) -> int:
        return sum(self._counted)

    def counts(self, day: date) -> bool:
        return self._counted[day.weekday()]

    def nearest(self, day: date, way: int) -> date:
        """The first counting day from `day` on, in one direction."""
        while not self.counts(day):
            day += way * _DAY
        return day

    def on(self, day: date, days: int, way: int) -> date:
        """The day that is `days` counting days after `day`, which counts."""
        weeks, rest = divmod(days, self.a_week)
        day += way * weeks * 7 * _DAY
        for _ in range(rest):
            day = self.nearest(day + way * _DAY, way)
        return day


def _computed(since: float, length: Length, days: _Days, zone: tzinfo, way: int) -> float:
    """The moment a length of time after another, or before it."""
    wall = datetime.fromtimestamp(since, zone).replace(tzinfo=None)
    if days.all:
        moment = moment_of(wall + way * length.days * _DAY, zone) if length.days else since
        return moment + way * length.seconds
    day, clock, left = wall.date(), wall - _midnight(wall.date()), length.days
    moment = since
    if not days.counts(day):
        day = days.nearest(day, way)
        if way == _FORWARD or left:
            clock, left = timedelta(0), left - (way == _BACK)
        else:
            clock = _DAY
        moment = moment_of(_midnight(day) + clock, zone)
    if left:
        day = days.on(day, left, way)
        moment = moment_of(_midnight(day) + clock, zone)
    seconds = length.seconds
    while seconds:
        edge = moment_of(_midnight(day) + (_DAY if way == _FORWARD else timedelta(0)), zone)
        room = abs(edge - moment)
        if seconds < room or (seconds == room and way == _BACK):
            return moment + way * seconds
        seconds -= room
        day = days.nearest(day + way * _DAY, way)
        moment = moment_of(_midnight(day) + (_DAY if way == _BACK else timedelta(0)), zone)
    return moment

"""Working time: the hours of some weekdays, and how long it takes until an amount of it has passed.

Hours are readings of the wall clock. On a day when the clock is changed, the time that actually passes
counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache

import msgspec

from narval.core.definitions.wall import moment_of, zone_named

DAY = 86400
WEEK = 7
MOST_WEEKS = 520
"""The most weeks of working time, ten years; more is refused where it is written."""

Hours = tuple[tuple[int, int], ...]
"""Parts of a day, each from one second to another, in order and disjoint."""


class WorkingTime(msgspec.Struct, frozen=True):
    """The `hours` of the counting `weekdays` (0 is Monday); () counts all days."""

    hours: Hours
    weekdays: tuple[int, ...] = ()

    def after(self, since: float, seconds: float, zone: str) -> float:
        """The moment at which `seconds` of it have passed since another; that moment itself for 0 seconds.

        Raises OverflowError and ValueError if it is past the calendar.
        """
        return self.after_in(since, seconds, zone_named(zone))

    def after_in(self, since: float, seconds: float, zone: tzinfo) -> float:
        """Like `after`, with the time zone as an object."""
        weeks, left = divmod(seconds, self.a_week)
        if weeks and not left:
            weeks, left = weeks - 1, left + self.a_week
        day = datetime.fromtimestamp(since, zone).date() - timedelta(1)
        for start, end in self._parts(day, zone):
            start = max(start, since)
            if start < end and left <= end - start:
                moment = start + left if left else since
                return moment if not weeks else self._weeks_on(moment, int(weeks), zone)
            left -= max(0.0, end - start)
        raise ValueError("past the calendar")

    def _weeks_on(self, moment: float, weeks: int, zone: tzinfo) -> float:
        wall = datetime.fromtimestamp(moment, zone).replace(tzinfo=None)
        return moment_of(wall + timedelta(weeks * WEEK), zone)

    def _parts(self, day: date, zone: tzinfo) -> Iterator[tuple[float, float]]:
        """The counting parts of `day` and later days, as moments."""
        while True:
            if not self.weekdays or day.weekday() in self.weekdays:
                midnight = datetime.combine(day, datetime.min.time())
                for first, last in self.hours:
                    yield tuple(moment_of(midnight + timedelta(0, at), zone) for at in (first, last))  # type: ignore[misc]
            day += timedelta(1)

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

"""Recurrence rules of iCalendar (RFC 5545, 3.3.10), expanded within a window and never beyond a budget.

The days of a period are those that no BY-part excludes, as in dateutil, with which the tests compare.
dateutil itself is not used: a rule that nothing matches, or that began in 1601, keeps it busy for minutes,
and nothing can stop it. Here the first period is that of the window, and each candidate is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from itertools import count, product

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
UNITS = {
    "HOURLY": timedelta(hours=1),
    "MINUTELY": timedelta(minutes=1),
    "SECONDLY": timedelta(seconds=1),
}
FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", *UNITS)
NUMBERS = {
    "BYMONTH": (1, 12), "BYWEEKNO": (-53, 53), "BYYEARDAY": (-366, 366), "BYMONTHDAY": (-31, 31),
    "BYHOUR": (0, 23), "BYMINUTE": (0, 59), "BYSECOND": (0, 60), "BYSETPOS": (-366, 366),
}  # fmt: skip
"""The parts with lists of numbers, and their ranges."""

WEEK = timedelta(days=7)
MAX_OF_PART = 100_000


class RuleError(ValueError):
    """A rule cannot be parsed, or needs more time than is available."""


class Budget:
    """The candidates that may be tried for a rule, and for all rules of a calendar together."""

    def __init__(self, steps: int, whole: Budget | None = None) -> None:
        self.left, self._whole = steps, whole

    def part(self) -> Budget:
        """A part of it for one event, so that a single event cannot spend it all."""
        return Budget(MAX_OF_PART, self)

    def spend(self, steps: int = 1) -> None:
        """Spend some. Raises RuleError if none is left."""
        if self._whole is not None:
            self._whole.spend(steps)
        self.left -= steps
        if self.left < 0:
            raise RuleError("its rule takes too many steps to work out")


@dataclass(frozen=True)
class Rule:
    """A rule; `weekdays` are pairs of a position (0: every one) and a weekday (0 is Monday).

    `until` is a text of iCalendar, since its zone depends on the event; `parts` are the lists of numbers.
    """

    frequency: str
    interval: int = 1
    count: int | None = None
    until: str = ""
    week_start: int = 0
    weekdays: frozenset[tuple[int, int]] = frozenset()
    parts: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Rule:
        """Parse the value of an RRULE. Raises RuleError."""
        given = dict(part.partition("=")[::2] for part in text.upper().split(";") if part)
        frequency = given.pop("FREQ", "")
        if frequency not in FREQUENCIES:
            raise RuleError(f"expected FREQ to be one of {', '.join(FREQUENCIES)}, found {frequency[:40]!r}")
        parts = {
            name: frozenset(_numbers(name, given.pop(name), *bounds))
            for name, bounds in NUMBERS.items()
            if name in given
        }
        amount = given.pop("COUNT", None)
        return cls(
            frequency,
            next(iter(_numbers("INTERVAL", given.pop("INTERVAL", "1"), 1, 100_000))),
            None if amount is None else next(iter(_numbers("COUNT", amount, 1, 10**9))),
            given.pop("UNTIL", ""),
            _weekday(given.pop("WKST", "MO"))[1],
            frozenset(map(_weekday, given.pop("BYDAY", "").split(",")))
            if given.get("BYDAY")
            else frozenset(),
            parts,
        )

    def beginning(self, start: datetime) -> Rule:
        """The rule completed with the day that it takes from the beginning of the event."""
        if self.weekdays or self.parts.keys() & {"BYWEEKNO", "BYYEARDAY", "BYMONTHDAY"}:
            return self
        if self.frequency == "WEEKLY":
            return replace(self, weekdays=frozenset({(0, start.weekday())}))
        if self.frequency not in ("YEARLY", "MONTHLY"):
            return self
        more = {"BYMONTHDAY": frozenset({start.day})}
        if self.frequency == "YEARLY" and "BYMONTH" not in self.parts:
            more["BYMONTH"] = frozenset({start.month})
        return replace(self, parts={**self.parts, **more})


def _numbers(name: str, text: str, least: int, most: int) -> list[int]:
    texts = text.split(",")
    if len(texts) > 400 or not all(re.fullmatch(r"[+-]?[0-9]{1,9}", number) for number in texts):
        raise RuleError(f"expected {name} to hold numbers, found {text[:40]!r}")
    numbers = list(map(int, texts))
    if not all(least <= number <= most for number in numbers) or (least < 0 and 0 in numbers):
        raise RuleError(f"expected {name} to hold numbers from {least} to {most}, found {text[:40]!r}")
    return numbers


def _weekday(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)", text.strip())
    if match is None:
        raise RuleError(f"expected weekdays such as MO or -1FR, found {text[:40]!r}")
    return int(match[1] or 0), WEEKDAYS.index(match[2])


def walls(rule: Rule, start: datetime, first: datetime, last: datetime, budget: Budget) -> Iterator[datetime]:
    """The dates and times of a rule from `first` to `last`, as the event's own clock shows them, in order.

    `start` is the beginning of the event. All three have no zone. Raises RuleError when the budget is spent.
    """
    rule = rule.beginning(start)
    if rule.frequency in UNITS:
        if "BYSETPOS" in rule.parts:
            raise RuleError(f"BYSETPOS of a rule that is {rule.frequency} is not supported")
        candidates = _often(rule, start, first, last, budget)
    else:
        candidates = _by_days(rule, start, first, last, budget)
    for index, wall in enumerate(candidates):
        if wall > last or (rule.count is not None and index >= rule.count):
            return
        if wall >= first:
            yield wall


# --- by days --------------------------------------------------------------------------------------------


def _by_days(
    rule: Rule, start: datetime, first: datetime, last: datetime, budget: Budget
) -> Iterator[datetime]:
    times = _times(rule, start)
    positions = rule.parts.get("BYSETPOS")
    # A COUNT counts from the beginning of the rule.
    after = start if rule.count is not None else max(start, first)
    for days in _periods(rule, start, after, last, budget):
        fitting = [day for day in days if _fits(rule, day, budget)]
        if positions is None:
            candidates: Iterator[datetime] = (datetime.combine(*pair) for pair in product(fitting, times))
        else:
            size = len(fitting) * len(times)
            budget.spend(len(positions))
            chosen = sorted({at - 1 if at > 0 else size + at for at in positions})
            candidates = (
                datetime.combine(fitting[at // len(times)], times[at % len(times)])
                for at in chosen
                if 0 <= at < size
            )
        for wall in candidates:
            budget.spend()
            if wall >= start:
                yield wall


def _times(rule: Rule, start: datetime) -> list[time]:
    """The times of a day, in order."""
    hours, minutes, seconds = (
        sorted(rule.parts.get(name, {value}))
        for name, value in (("BYHOUR", start.hour), ("BYMINUTE", start.minute), ("BYSECOND", start.second))
    )
    return [time(hour, minute, min(second, 59)) for hour, minute, second in product(hours, minutes, seconds)]


def _periods(
    rule: Rule, start: datetime, after: datetime, last: datetime, budget: Budget
) -> Iterator[Iterator[date]]:
    """The days of each period that the rule covers, from the one of `after` to that of `last`."""
    place, days = PERIODS[rule.frequency]
    begun = place(rule, start.date())
    index = max(0, (place(rule, after.date()) - begun) // rule.interval * rule.interval)
    while begun + index <= place(rule, last.date()):
        budget.spend()
        yield days(rule, begun + index)
        index += rule.interval


def _week(rule: Rule, day: date) -> int:
    return (day.toordinal() - 1 - rule.week_start) // 7


def _days_of_week(rule: Rule, week: int) -> Iterator[date]:
    begun = week * 7 + 1 + rule.week_start
    return (date.fromordinal(day) for day in range(max(begun, 1), min(begun + 7, date.max.toordinal())))


def _days_of_month(rule: Rule, month: int) -> Iterator[date]:
    first = date(month // 12, month % 12 + 1, 1)
    if first.month not in rule.parts.get("BYMONTH", {first.month}):
        return iter(())
    size = _length_of_month(first)
    chosen = rule.parts.get("BYMONTHDAY")
    if chosen is None:
        return (first.replace(day=day) for day in range(1, size + 1))
    days = {day if day > 0 else size + 1 + day for day in chosen}
    return (first.replace(day=day) for day in sorted(days) if 1 <= day <= size)


def _days_of_year(rule: Rule, year: int) -> Iterator[date]:
    return (day for month in range(12) for day in _days_of_month(rule, year * 12 + month))


def _length_of_month(first: date) -> int:
    if first.month == 12:
        return 31
    return (first.replace(month=first.month + 1) - first).days


PERIODS: dict[str, tuple[Callable[[Rule, date], int], Callable[[Rule, int], Iterator[date]]]] = {
    "YEARLY": (lambda _, day: day.year, _days_of_year),
    "MONTHLY": (lambda _, day: day.year * 12 + day.month - 1, _days_of_month),
    "WEEKLY": (_week, _days_of_week),
    "DAILY": (lambda _, day: day.toordinal(), lambda _, day: iter((date.fromordinal(day),))),
}
"""The number of the period that a day is in, and the days of a period, by frequency."""


def _fits(rule: Rule, day: date, budget: Budget) -> bool:
    """True if no BY-part excludes a day."""
    budget.spend()
    parts = rule.parts
    if day.month not in parts.get("BYMONTH", {day.month}):
        return False
    if "BYMONTHDAY" in parts:
        size = _length_of_month(day.replace(day=1))
        if parts["BYMONTHDAY"].isdisjoint((day.day, day.day - size - 1)):
            return False
    if "BYYEARDAY" in parts:
        number, size = day.timetuple().tm_yday, date(day.year, 12, 31).timetuple().tm_yday
        if parts["BYYEARDAY"].isdisjoint((number, number - size - 1)):
            return False
    if "BYWEEKNO" in parts and parts["BYWEEKNO"].isdisjoint(_numbers_of_week(rule, day)):
        return False
    return not rule.weekdays or any(_is_weekday(rule, day, *weekday) for weekday in rule.weekdays)


def _numbers_of_week(rule: Rule, day: date) -> tuple[int, int]:
    """The number of a day's week in its year, from the beginning and from the end of it."""
    begins = day - timedelta((day.weekday() - rule.week_start) % 7)
    year = (begins + timedelta(3)).year  # the year that has most of its days

    def first_of(year: int) -> date:
        fourth = date(year, 1, 4)
        return fourth - timedelta((fourth.weekday() - rule.week_start) % 7)

    number = (begins - first_of(year)) // WEEK + 1
    return number, number - (first_of(year + 1) - first_of(year)) // WEEK - 1


def _is_weekday(rule: Rule, day: date, position: int, weekday: int) -> bool:
    if day.weekday() != weekday:
        return False
    if not position or rule.frequency not in ("YEARLY", "MONTHLY"):
        return True
    if rule.frequency == "MONTHLY" or "BYMONTH" in rule.parts:
        index, size = day.day - 1, _length_of_month(day.replace(day=1))
    else:
        index, size = day.timetuple().tm_yday - 1, date(day.year, 12, 31).timetuple().tm_yday
    return position in (index // 7 + 1, -((size - 1 - index) // 7) - 1)


# --- more often than daily ------------------------------------------------------------------------------


def _often(
    rule: Rule, start: datetime, first: datetime, last: datetime, budget: Budget
) -> Iterator[datetime]:
    step = UNITS[rule.frequency] * rule.interval
    filtered = bool(rule.parts or rule.weekdays)
    skipped = 0
    if first > start and (not filtered or rule.count is None):
        skipped = max(0, (first - start) // step - 1)
    left = None if filtered or rule.count is None else max(0, rule.count - skipped)
    for number in count() if left is None else range(left):
        budget.spend()
        wall = start + step * (skipped + number)
        if wall > last + step:
            return
        if not filtered:
            yield wall
        elif wall.hour in rule.parts.get("BYHOUR", {wall.hour}) and _fits(rule, wall.date(), budget):
            yield from (moment for moment in _within(rule, wall) if moment >= start)


def _within(rule: Rule, wall: datetime) -> Iterator[datetime]:
    """The moments of a rule within an hour or a minute; within a second, the second itself if it matches."""
    minutes, seconds = {wall.minute}, {wall.second}
    if rule.frequency == "HOURLY":
        minutes = set(rule.parts.get("BYMINUTE", minutes))
    elif wall.minute not in rule.parts.get("BYMINUTE", minutes):
        return
    if rule.frequency != "SECONDLY":
        seconds = set(rule.parts.get("BYSECOND", seconds))
    elif wall.second not in rule.parts.get("BYSECOND", seconds):
        return
    for minute, second in product(sorted(minutes), sorted(seconds)):
        yield wall.replace(minute=minute, second=min(second, 59))

"""Windows of time (K34, K35): when a rule may be judged, and when its action may be done.

    spec       relative                    of the clock on the wall
    AT t       the instant base+t          the next instant from the base on at which it shows t
    AFTER t    from base+t on              from that instant on
    BEFORE t   from the base to base+t     from the base to that instant
    WITHIN t   as BEFORE, the end too      as BEFORE, the end too

A time of the clock with weekdays is on one of them. A length of working time passes only in its hours.

AND gives the times that are in both, OR those that are in either. If a shift of the clock skips t, the first
instant after it counts; if the clock shows t twice, the first counts (KA9). `AFTER a AND BEFORE b`, both of
the clock, is the daily window from a to the next b, on a weekday of b's own if it has any: the window that
contains the base, else the next. A moment with a date is used as it is. No window has times before the base.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, tzinfo
from math import inf
from typing import Literal, NamedTuple

import msgspec

from narval.core.definitions.appointment import WEEK, WorkingTime
from narval.core.definitions.wall import moment_of, zone_named

DAY = 86400
LONGEST = 36_525 * DAY
"""Seconds: a hundred years."""

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])")
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,6})?)"
_PLAIN = re.compile(_NUMBER)
_UNITS = re.compile(rf"(?:{_NUMBER}\s*HRS)?\s*(?:{_NUMBER}\s*MINS)?\s*(?:{_NUMBER}\s*SECS)?", re.I)
_ISO = re.compile(rf"P(?:{_NUMBER}D)?(?:T(?=.)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?")
_DATED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(?:Z|[+-][0-9]{2}:[0-9]{2})?")
_WANTED = "a time such as 21:00:00, 5 MINS, PT5M, a number of seconds or 2026-11-22T21:00:00"


class Moment(NamedTuple):
    """A moment, in seconds since 1970."""

    seconds: float


class TimeLength(NamedTuple):
    """A length of time in seconds; with `is_clock` a time of day, in seconds after midnight."""

    seconds: float
    is_clock: bool = False


def read_time(text: str, zone: tzinfo) -> Moment | TimeLength:
    """The time that a text gives; a moment without a zone is in `zone`.

    Raises ValueError with what was expected.
    """
    text = text.strip()
    if (clock := _CLOCK.fullmatch(text)) is not None:
        hours, minutes, seconds = map(int, clock.groups())
        return TimeLength(hours * 3600 + minutes * 60 + seconds, is_clock=True)
    if _DATED.fullmatch(text):
        return Moment(_dated(text, zone))
    if _PLAIN.fullmatch(text):
        return _span(text, float(text))
    if words := _parts(_UNITS, text):
        return _span(text, words[0] * 3600 + words[1] * 60 + words[2])
    if words := _parts(_ISO, text):
        return _span(text, words[0] * DAY + words[1] * 3600 + words[2] * 60 + words[3])
    raise ValueError(f"expected {_WANTED}, got {text!r:.60}")


def _parts(pattern: re.Pattern[str], text: str) -> list[float]:
    """The numbers of a length, 0 for those left out; none if the text is no length, or all are left out."""
    match = pattern.fullmatch(text)
    return [] if match is None or not any(match.groups()) else [float(part or 0) for part in match.groups()]


def _span(text: str, seconds: float) -> TimeLength:
    if seconds > LONGEST:
        raise ValueError(f"expected no more than a hundred years, got {text!r:.60}")
    return TimeLength(seconds)


def _dated(text: str, zone: tzinfo) -> float:
    try:
        read = datetime.fromisoformat(text)
        return read.timestamp() if read.tzinfo is not None else moment_of(read, zone)
    except (ValueError, OverflowError):
        raise ValueError(f"expected {_WANTED}, got {text!r:.60}") from None


class Duration(msgspec.Struct, frozen=True, tag=True):
    """A length of time in seconds, of `working` time if that is given; if ABSOLUTE, a time of the clock that
    long after midnight.
    """

    seconds: float
    working: WorkingTime | None = None


class ClockTime(msgspec.Struct, frozen=True, tag=True):
    """A reading of the wall clock, in seconds since midnight."""

    seconds: float


class Parameter(msgspec.Struct, frozen=True, tag=True):
    """A time that the event brings under this name."""

    name: str


class Window(msgspec.Struct, frozen=True, tag=True):
    """One window; `qualifier` is "" if its value decides. A qualifier at the end of a specification also
    qualifies all windows to its left without one, which the parser settles (KA1). A time of the clock is on
    one of its weekdays (0 is Monday), if it has any.
    """

    operator: Literal["AT", "BEFORE", "AFTER", "WITHIN"]
    value: Duration | ClockTime | Parameter
    qualifier: Literal["", "RELATIVE", "ABSOLUTE"] = ""
    weekdays: tuple[int, ...] = ()

    @property
    def is_of_clock(self) -> bool:
        """True if its value, unless an event brings it, is a reading of the clock (KA2)."""
        return self.qualifier == "ABSOLUTE" or (not self.qualifier and isinstance(self.value, ClockTime))


class AllOf(msgspec.Struct, frozen=True, tag=True):
    """The times that are in all of its specifications: AND."""

    specs: tuple[TimeSpec, ...]


class AnyOf(msgspec.Struct, frozen=True, tag=True):
    """The times that are in one of its specifications: OR."""

    specs: tuple[TimeSpec, ...]


TimeSpec = Window | AllOf | AnyOf


class Interval(msgspec.Struct, frozen=True):
    """The time from one moment to another (seconds since 1970, UTC); it includes its end if it is `closed`.

    An instant ends as it begins, and is closed.
    """

    start: float
    end: float
    closed: bool = False


def windows(spec: TimeSpec, base: float, zone: str, parameters: Mapping[str, str]) -> tuple[Interval, ...]:
    """The times of a specification from a base on, in the zone of that name: in order, and disjoint.

    There may be none. Raises ValueError for a parameter that is not a time.
    """
    return _times(spec, _Reckoning(base, zone_named(zone), parameters))


class _Clock(NamedTuple):
    """A reading of the clock, in seconds since midnight, on one of its weekdays, or on any day."""

    seconds: float
    weekdays: tuple[int, ...] = ()


class _Reckoning(NamedTuple):
    """The base, the zone and the parameters from which windows are computed."""

    base: float
    zone: tzinfo
    parameters: Mapping[str, str]

    def value(self, window: Window) -> _Clock | float:
        """The reading of the clock, or the moment, that a window names."""
        value, is_clock = window.value, isinstance(window.value, ClockTime)
        if isinstance(value, Parameter):
            read = read_time(self.parameters[value.name], self.zone)
            if isinstance(read, Moment):
                return read.seconds
            seconds, is_clock = read.seconds, read.is_clock
        else:
            seconds = value.seconds
            if isinstance(value, Duration) and value.working is not None:
                return value.working.after_in(self.base, seconds, self.zone)
        if window.qualifier == "RELATIVE" or (not is_clock and not window.qualifier):
            return self.base + seconds
        if seconds >= DAY:
            raise ValueError(f"expected a time of the day, under 24 hours, got {seconds:g} seconds")
        return _Clock(seconds, window.weekdays)

    def moment(self, value: _Clock | float) -> float:
        """The moment of a value; for a clock, the next one from the base on."""
        if not isinstance(value, _Clock):
            return value
        # The day before counts too, if a shift skips the rest of that day.
        moments = (self.of_day(days, value) for days in self.days(value, -1))
        return next(moment for moment in moments if moment >= self.base)

    def days(self, clock: _Clock, first: int) -> Iterator[int]:
        """The permitted days from `first` on, as numbers of days after the base's day."""
        today = datetime.fromtimestamp(self.base, self.zone).weekday()
        return (
            day
            for day in range(first, 2 * WEEK + 1)
            if not clock.weekdays or (today + day) % WEEK in clock.weekdays
        )

    def of_day(self, days: int, clock: _Clock) -> float:
        """The moment of a reading of the clock, `days` days after the base's day."""
        today = datetime.fromtimestamp(self.base, self.zone).replace(tzinfo=None)
        midnight = today.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        return moment_of(midnight + timedelta(days, clock.seconds), self.zone)

    def daily(self, after: _Clock, before: _Clock, closed: bool) -> tuple[Interval, ...]:
        """The daily window between two readings of the clock that contains the base, else the next. If its
        end has weekdays of its own, it lasts until one of these.
        """
        later = 0 if before.seconds > after.seconds else 1
        is_long = bool(before.weekdays) and before.weekdays != after.weekdays
        for day in self.days(after, -WEEK if is_long else -2):
            start = self.of_day(day, after)
            end = self._after(start, day, before) if is_long else self.of_day(day + later, before)
            if windows := _from(self.base, Interval(start, end, closed)):
                return windows
        return ()

    def _after(self, start: float, first: int, clock: _Clock) -> float:
        """The first moment of a reading of the clock after `start`, on the day `first` or later."""
        moments = (self.of_day(day, clock) for day in self.days(clock, first))
        return next((moment for moment in moments if moment > start), start)


def _times(spec: TimeSpec, by: _Reckoning) -> tuple[Interval, ...]:
    if isinstance(spec, AnyOf):
        return _united([window for inner in spec.specs for window in _times(inner, by)])
    if isinstance(spec, AllOf):
        return _all_of(spec, by)
    at = by.moment(by.value(spec))
    if spec.operator == "AT":
        return _from(by.base, Interval(at, at, True))
    if spec.operator == "AFTER":
        return _from(by.base, Interval(at, inf))
    return _from(by.base, Interval(by.base, at, spec.operator == "WITHIN"))


def _all_of(spec: AllOf, by: _Reckoning) -> tuple[Interval, ...]:
    rest = list(spec.specs)
    after, before = _clock_of(rest, by, "AFTER"), _clock_of(rest, by, "BEFORE", "WITHIN")
    windows: tuple[Interval, ...] = (Interval(by.base, inf),)
    if after is not None and before is not None:
        rest.remove(after[0])
        rest.remove(before[0])
        windows = by.daily(after[1], before[1], before[0].operator == "WITHIN")
    for inner in rest:
        windows = _in_both(windows, _times(inner, by))
    return windows


def _clock_of(specs: list[TimeSpec], by: _Reckoning, *operators: str) -> tuple[Window, _Clock] | None:
    """The first window with one of these operators whose time is of the clock."""
    for spec in specs:
        if isinstance(spec, Window) and spec.operator in operators:
            value = by.value(spec)
            if isinstance(value, _Clock):
                return spec, value
    return None


def _from(base: float, window: Interval) -> tuple[Interval, ...]:
    """The part of a window that is not before the base; () if there is none."""
    start = max(base, window.start)
    if start < window.end or (start == window.end and window.closed):
        return (Interval(start, window.end, window.closed),)
    return ()


def _united(windows: list[Interval]) -> tuple[Interval, ...]:
    apart: list[Interval] = []
    for window in sorted(windows, key=lambda window: window.start):
        if apart and window.start <= apart[-1].end:
            last = apart.pop()
            end, closed = max((last.end, last.closed), (window.end, window.closed))
            window = Interval(last.start, end, closed)
        apart.append(window)
    return tuple(apart)


def _in_both(ones: tuple[Interval, ...], others: tuple[Interval, ...]) -> tuple[Interval, ...]:
    both: list[Interval] = []
    for one in ones:
        for other in others:
            end, closed = min((one.end, one.closed), (other.end, other.closed))
            both += _from(max(one.start, other.start), Interval(0, end, closed))
    return tuple(both)


# --- windows without any time -------------------------------------------------------------------------

_MOST_BASES = 500
"""The most bases tried; specifications that need more are not judged."""


def is_empty(spec: TimeSpec) -> bool:
    """True if a specification contains no time, whatever its parameters and its base.

    Days on which the clock is shifted are ignored. False if it cannot be decided.
    """
    if isinstance(spec, AnyOf):
        return all(map(is_empty, spec.specs))
    if isinstance(spec, AllOf):
        if any(map(is_empty, spec.specs)):
            return True
        fixed = tuple(inner for inner in spec.specs if not _has_parameter(inner))
        return len(fixed) > 1 and _is_never(AllOf(fixed))
    return False


def _windows_in(spec: TimeSpec) -> Iterator[Window]:
    if isinstance(spec, Window):
        yield spec
    else:
        for inner in spec.specs:
            yield from _windows_in(inner)


def _has_parameter(spec: TimeSpec) -> bool:
    """True if it cannot be judged: it has parameters, weekdays, or working time."""
    return any(
        isinstance(window.value, Parameter)
        or bool(window.weekdays)
        or (isinstance(window.value, Duration) and window.value.working is not None)
        for window in _windows_in(spec)
    )


def _is_never(spec: AllOf) -> bool:
    """True if it contains no time, whatever the base. All bases between two tried ones give the
    same result.
    """
    opened = list(_windows_in(spec))
    of_clock = {_seconds(window) for window in opened if window.is_of_clock}
    lengths = {_seconds(window) for window in opened if not window.is_of_clock}
    if not of_clock:
        return not windows(spec, 0.0, "UTC", {})
    if any(not value.is_integer() for value in (*of_clock, *lengths)):
        return False  # exact coincidences cannot be decided
    turns = sorted({(clock - length) % DAY for clock in of_clock for length in (0.0, *lengths)})
    if len(turns) > _MOST_BASES:
        return False
    between = [
        (turn + following) / 2 for turn, following in zip(turns, [*turns[1:], turns[0] + DAY], strict=True)
    ]
    return not any(windows(spec, DAY + base, "UTC", {}) for base in (*turns, *between))


def _seconds(window: Window) -> float:
    assert not isinstance(window.value, Parameter)
    return float(window.value.seconds)

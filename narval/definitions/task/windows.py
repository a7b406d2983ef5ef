"""Windows of time (K34, K35): when a rule may be judged, and when its action may be done."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import inf
from typing import Literal
from zoneinfo import ZoneInfo

import msgspec


class Duration(msgspec.Struct, frozen=True, tag=True):
    """A length of time in seconds; marked ABSOLUTE, the clock so long after midnight."""

    seconds: float


class ClockTime(msgspec.Struct, frozen=True, tag=True):
    """A reading of the clock on the wall, in seconds since midnight."""

    seconds: float


class Parameter(msgspec.Struct, frozen=True, tag=True):
    """A time that the event brings under this name."""

    name: str


class Window(msgspec.Struct, frozen=True, tag=True):
    """One window; `qualifier` is "" where its value decides (KA1 is resolved when it is read)."""

    operator: Literal["AT", "BEFORE", "AFTER", "WITHIN"]
    value: Duration | ClockTime | Parameter
    qualifier: Literal["", "RELATIVE", "ABSOLUTE"] = ""


class AllOf(msgspec.Struct, frozen=True, tag=True):
    """The times that are in all of them: AND."""

    specs: tuple[TimeSpec, ...]


class AnyOf(msgspec.Struct, frozen=True, tag=True):
    """The times that are in one of them: OR."""

    specs: tuple[TimeSpec, ...]


TimeSpec = Window | AllOf | AnyOf


class Interval(msgspec.Struct, frozen=True):
    """The time from a moment to another (seconds since 1970, UTC), which belongs to it if it is `closed`.

    An instant begins and ends at once, and is closed.
    """

    start: float
    end: float
    closed: bool = False


def windows(spec: TimeSpec, base: float, zone: str, parameters: Mapping[str, str]) -> tuple[Interval, ...]:
    """The times of a specification, counted from a base by the calendar of a zone, in order and apart.

    Raises ValueError for a parameter that is no time.
    """
    if isinstance(spec, AnyOf):
        found = [window for one in spec.specs for window in windows(one, base, zone, parameters)]
        return _united(found)
    if isinstance(spec, AllOf):
        both = windows(spec.specs[0], base, zone, parameters)
        for one in spec.specs[1:]:
            both = _in_both(both, windows(one, base, zone, parameters))
        return both
    at = _moment(spec, base, zone, parameters)
    match spec.operator:
        case "AT":
            return (Interval(at, at, True),)
        case "AFTER":
            return (Interval(at, inf),)
        case "BEFORE":
            return (Interval(base, at),) if at > base else ()
    return (Interval(base, at, True),) if at >= base else ()


def _united(found: list[Interval]) -> tuple[Interval, ...]:
    apart: list[Interval] = []
    for window in sorted(found, key=lambda one: (one.start, one.end)):
        if apart and window.start <= apart[-1].end:
            last = apart[-1]
            end = max((last.end, last.closed), (window.end, window.closed))
            apart[-1] = Interval(last.start, *end)
        else:
            apart.append(window)
    return tuple(apart)


def _in_both(ones: tuple[Interval, ...], others: tuple[Interval, ...]) -> tuple[Interval, ...]:
    found = []
    for one in ones:
        for other in others:
            start = max(one.start, other.start)
            end, closed = min((one.end, one.closed), (other.end, other.closed))
            if start < end or (start == end and closed):
                found.append(Interval(start, end, closed))
    return tuple(found)


def _moment(window: Window, base: float, zone: str, parameters: Mapping[str, str]) -> float:
    value = window.value
    if isinstance(value, Parameter):
        return base + float(parameters[value.name])
    if isinstance(value, Duration) and window.qualifier != "ABSOLUTE":
        return base + value.seconds
    day = datetime.fromtimestamp(base, ZoneInfo(zone)).replace(hour=0, minute=0, second=0, microsecond=0)
    for days in (0, 1):
        moment = (day + timedelta(days, value.seconds)).timestamp()
        if moment >= base:
            return moment
    return base

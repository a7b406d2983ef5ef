"""Windows of time (K34, K35): when a rule may be judged, and when its action may be done."""

from __future__ import annotations

from typing import Literal

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

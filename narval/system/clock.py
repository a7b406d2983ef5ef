"""Clocks: the machine's with its time zone, or one that a test or a simulation moves."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

import msgspec

from narval.core.definitions.wall import zone_named
from narval.core.errors import RequestError

SET = 5.0
"""Seconds: a difference below this counts as a slow or fast clock, not as a clock that was set."""

_FIRST, _LAST = (datetime(*day, tzinfo=UTC).timestamp() for day in ((1, 1, 3), (9999, 12, 29)))


def utc(at: float) -> datetime:
    """A moment as a date that every zone has; a moment out of range is the first or the last such date."""
    return datetime.fromtimestamp(min(max(at, _FIRST), _LAST), UTC)


class Jump(NamedTuple):
    """A change of a clock besides the passing of time: it was set by `by` seconds, or the machine `slept` for
    `slept` seconds.
    """

    by: float
    slept: float


class Clock(Protocol):
    """The clock of the runtime."""

    is_simulated: bool
    """True for a clock that its owner moves."""

    def now(self) -> float:
        """Seconds since 1970, UTC."""

    def monotonic(self) -> float:
        """Seconds of a clock that cannot be set, which counts while the machine is awake."""

    def jump(self) -> Jump | None:
        """The jump of the clock since the last call, or None."""


class RunClock(msgspec.Struct, frozen=True):
    """The clock of an agent's runs, and the name of the zone whose calendar the home uses."""

    clock: Clock
    zone: str = "UTC"

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return self.clock.now()

    def date(self) -> datetime:
        """The present date and time in the zone."""
        return datetime.fromtimestamp(self.clock.now(), zone_named(self.zone))

    def standing(self) -> float | None:
        """The present moment of a simulated clock; None for the machine's."""
        return self.clock.now() if isinstance(self.clock, SimulatedClock) else None


def _always() -> float:
    """Seconds of a clock that cannot be set, which also counts while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SystemClock:
    """The clock of the machine.

    If it is set back by less than `SET`, it stops until the time has caught up, so that no moment comes
    twice. A larger change is a `Jump`. Three clocks together tell a change from sleep: one counts during
    sleep, one does not, and neither can be set.
    """

    is_simulated = False

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        always: Callable[[], float] = _always,
        awake: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wall, self._always, self._awake = wall, always, awake
        self._latest = wall()
        self._ahead, self._slept = self._apart()

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        wall = self._wall()
        if self._latest - SET < wall < self._latest:
            return self._latest
        self._latest = wall
        return wall

    def monotonic(self) -> float:
        """Seconds of a clock that cannot be set, which counts while the machine is awake."""
        return self._awake()

    def jump(self) -> Jump | None:
        """The jump of the clock since the last call, or None."""
        ahead, slept = self._apart()
        by, nap = ahead - self._ahead, slept - self._slept
        self._ahead, self._slept = ahead, slept
        jump = Jump(by if abs(by) >= SET else 0.0, nap if nap >= SET else 0.0)
        return jump if any(jump) else None

    def _apart(self) -> tuple[float, float]:
        """The seconds by which the wall clock is ahead of a clock that cannot be set, and the seconds the
        machine has slept.
        """
        always = self._always()
        return self._wall() - always, always - self._awake()


class SimulatedClock:
    """A clock that stops until it is moved, for tests and simulations.

    `start` is in seconds since 1970, a datetime, or its ISO 8601 text; without a zone it is UTC.
    """

    is_simulated = True

    def __init__(self, start: float | datetime | str = 0.0) -> None:
        self._now = _seconds(start)
        self._jump: Jump | None = None

    def now(self) -> float:
        """Seconds since 1970, UTC."""
        return self._now

    def monotonic(self) -> float:
        """The same as `now`: only its owner sets it."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let `seconds` seconds pass."""
        self._move(self._now + seconds)

    def set(self, moment: float | datetime | str) -> None:
        """Let time pass up to this moment."""
        self._move(_seconds(moment))

    def step(self, seconds: float) -> None:
        """Set the clock forward or back, like the correction of a wrong clock: no time passes."""
        self._now += seconds
        self._jump = Jump(seconds + (self._jump.by if self._jump else 0.0), 0.0)

    def sleep(self, seconds: float) -> None:
        """Let time pass while the machine sleeps and no program runs."""
        self.advance(seconds)
        self._jump = Jump(self._jump.by if self._jump else 0.0, seconds)

    def jump(self) -> Jump | None:
        """The jump of the clock since the last call, or None."""
        jump, self._jump = self._jump, None
        return jump

    def _move(self, moment: float) -> None:
        if not moment >= self._now:
            raise RequestError(f"expected a moment not before {_text(self._now)}, got {_text(moment)}")
        self._now = moment


def _seconds(moment: float | datetime | str) -> float:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise RequestError(f"expected a date such as 2026-03-01T07:00:00Z, got {moment!r}") from None
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return float(moment)


def _text(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return str(moment)


_LINK = Path("/etc/localtime")
_TEXT = Path("/etc/timezone")


def machine_zone() -> str:
    """The name of the machine's zone: from TZ, else the target of /etc/localtime, else /etc/timezone; UTC if
    it names none.
    """
    linked = os.path.realpath(_LINK).partition("/zoneinfo/")[2]
    for name in (os.environ.get("TZ", "").removeprefix(":"), linked, _zone_file()):
        if is_zone(name):
            return name
    return "UTC"


def _zone_file() -> str:
    try:
        return _TEXT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def is_zone(name: str) -> bool:
    """True for the name of a time zone."""
    try:
        return bool(name) and bool(ZoneInfo(name).key)
    except (OSError, ValueError, LookupError):
        return False

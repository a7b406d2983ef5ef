"""The wall clock of a time zone: the single moment of each of its readings (N25).

If the clock shows a reading twice, its moment is the first; if it skips the reading, the moment right after
the gap. So ordered readings have ordered moments.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from math import floor
from zoneinfo import ZoneInfo

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
)  # fmt: skip


def zone_named(name: str) -> tzinfo:
    """The time zone with a name; UTC needs no zone files. Raises ValueError if there is none."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (LookupError, OSError):  # a folder of zones is an OSError
        raise ValueError(f"there is no time zone {name!r:.80}") from None


def in_utc(moment: float | None) -> str:
    """A moment in seconds, such as 2026-01-31T18:30:00Z; "" for None."""
    return "" if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_zone(moment: float, zone: str) -> str:
    """A moment in seconds, such as 2026-01-31 19:30:00 (Europe/Paris)."""
    return f"{datetime.fromtimestamp(moment, zone_named(zone)):%Y-%m-%d %H:%M:%S} ({zone})"


def moment_of(reading: datetime, zone: tzinfo) -> float:
    """The moment of a wall-clock reading. Raises OverflowError or ValueError if it is past the calendar."""
    wall = reading.replace(tzinfo=zone, fold=0)
    moment = wall.timestamp()
    return moment if datetime.fromtimestamp(moment, zone) == wall else float(shift(wall))


def shift(wall: datetime) -> int:
    """The first moment of the new offset, for a reading that a shift skips or doubles."""
    one, other = wall.replace(fold=0).timestamp(), wall.replace(fold=1).timestamp()
    # Bisect, at most a day: the shift is after `low`, and not after `high`.
    low, high = floor(min(one, other)), floor(max(one, other))
    before = datetime.fromtimestamp(low, wall.tzinfo).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, wall.tzinfo).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high

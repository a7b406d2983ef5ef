"""The clock on the wall of a zone: the one moment of each of its readings (N25).

When the wall shows a reading twice, its moment is the first; when the wall skips it, the moment right after
the gap. So readings in order have moments in order.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from math import floor
from zoneinfo import ZoneInfo


def zone_named(name: str) -> tzinfo:
    """The zone of that name; UTC needs no file of zones."""
    return UTC if name == "UTC" else ZoneInfo(name)


def in_utc(moment: float | None) -> str:
    """A moment to the second, as 2026-01-31T18:30:00Z; "" for none."""
    return "" if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_zone(moment: float, zone: str) -> str:
    """A moment to the second, as 2026-01-31 19:30:00 (Europe/Paris)."""
    return f"{datetime.fromtimestamp(moment, zone_named(zone)):%Y-%m-%d %H:%M:%S} ({zone})"


def moment_of(reading: datetime, zone: tzinfo) -> float:
    """The moment of a reading of the wall. Raises OverflowError or ValueError for one past the calendar."""
    wall = reading.replace(tzinfo=zone, fold=0)
    moment = wall.timestamp()
    return moment if datetime.fromtimestamp(moment, zone) == wall else float(shift(wall))


def shift(wall: datetime) -> int:
    """The first moment of the new offset, for a reading in a zone that a shift skips or doubles."""
    one, other = wall.replace(fold=0).timestamp(), wall.replace(fold=1).timestamp()
    # Halving a day at most: the shift is after `low`, and not after `high`.
    low, high = floor(min(one, other)), floor(max(one, other))
    before = datetime.fromtimestamp(low, wall.tzinfo).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, wall.tzinfo).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high

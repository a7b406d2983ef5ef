"""Lengths of time as people write them: "30s", "5m", "1d 12h"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

_UNITS: Mapping[str, float] = MappingProxyType(
    {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
)
_DAYS: Mapping[str, int] = MappingProxyType({"d": 1, "w": 7})
_LONGEST = 36_525 * 86400
"""Seconds: a hundred years."""
LENGTH = 'a length of time such as "3d", "1d 12h" or "15m", of whole days, no more than a hundred years'
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_PART = rf"({_NUMBER})\s*([a-z]*)"
_DURATION = rf"\s*{_NUMBER}\s*|(?:\s*{_NUMBER}\s*(?:{'|'.join(filter(None, _UNITS))}))+\s*"


def read_duration(text: str) -> float:
    """The seconds of a text such as "90", "5m" or "1d 12h". Raises ValueError with what was expected."""
    if not re.fullmatch(_DURATION, text):
        raise ValueError('a number of seconds or a text such as "30s", "5m", "2h", "1d"')
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))


def read_length(text: str) -> tuple[int, float]:
    """The days and the seconds of a text such as "3d", "1w" or "1d 12h". Raises ValueError likewise."""
    days, seconds = 0.0, 0.0
    if not re.fullmatch(_DURATION, text):
        raise ValueError(LENGTH)
    for number, unit in re.findall(_PART, text):
        if unit in _DAYS:
            days += float(number) * _DAYS[unit]
        else:
            seconds += float(number) * _UNITS[unit]
    if not days.is_integer() or not 0 < days * 86400 + seconds <= _LONGEST:
        raise ValueError(LENGTH)
    return int(days), seconds


def length_of(seconds: float) -> str:
    """A length of time in readable form, such as "1d 2h 30m"; fractions of a second are dropped."""
    left, parts = int(seconds), list[str]()
    for unit in ("d", "h", "m", "s"):
        number, left = divmod(left, int(_UNITS[unit]))
        parts += [f"{number}{unit}"] if number else []
    return " ".join(parts) or "0s"


def duration(seconds: float) -> str:
    """A length of time in its two most significant units."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"

"""The times that events bring as parameters: clocks, moments with a date, and lengths of time (K36)."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo
from typing import NamedTuple

from narval.core.definitions.wall import moment_of

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
    if any(words := _parts(_UNITS, text)):
        return _span(text, words[0] * 3600 + words[1] * 60 + words[2])
    if any(words := _parts(_ISO, text)) or re.fullmatch(r"P(?:0D|T0[HMS])", text):
        days, *rest = words
        return _span(text, days * DAY + rest[0] * 3600 + rest[1] * 60 + rest[2])
    raise ValueError(f"expected {_WANTED}, got {text!r:.60}")


def _parts(pattern: re.Pattern[str], text: str) -> list[float]:
    found = pattern.fullmatch(text)
    return [] if found is None else [float(part or 0) for part in found.groups()]


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

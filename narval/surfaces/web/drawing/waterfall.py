"""The waterfall of a run: a bar for each call and wait over time, as plain values for a template (M36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from narval.core.definitions.reading.durations import duration

LEAST = 0.3
"""The least width of a bar, in percent of the time."""

MARKS = 6
"""The rough number of marks on the scale."""

OUTCOMES = {
    "done": "done", "came": "done", "failed": "failed", "given up": "cancelled", "under way": "active",
}  # fmt: skip
"""The tones of the outcomes of a call."""

WAITS = frozenset({"element", "moment", "back-off", "person", "place"})
"""The things that a run waits for while it is inactive."""


class Bar(msgspec.Struct, frozen=True):
    """A row: its bar from `x` percent of the time on, the wait for a place before it, and its text."""

    row: Mapping[str, Any]
    tone: str
    x: float
    width: float
    waited: float
    took: str

    @property
    def words_at(self) -> float:
        """The place of the text, behind the bar."""
        return round(self.x + self.width, 2)


class Mark(msgspec.Struct, frozen=True):
    """A mark of the scale, at a percent of the time."""

    x: float
    text: str


class Waterfall(msgspec.Struct, frozen=True):
    """All rows with the scale above them, in percent of the time."""

    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]


def waterfall(rows: Iterable[Mapping[str, Any]], started: str, ended: str | None, now: float) -> Waterfall:
    """The rows of `timeline` from the start of a run to its end, or to the present moment."""
    listed = list(rows)
    first = _seconds(started)
    ends = [_seconds(row["ended"]) for row in listed if row["ended"]]
    last = max(_seconds(ended) if ended else now, *ends, first)
    span = max(last - first, 0.001)

    def place(text: str | None) -> float:
        at = _seconds(text) if text else last
        return 100 * min(1.0, max(0.0, (at - first) / span))

    bars = []
    for row in listed:
        asked, begun, end = place(row["asked"]), place(row["begun"] or row["asked"]), place(row["ended"])
        is_waiting = row["for"] in WAITS and row["outcome"] in ("under way", "came")
        tone = "waiting" if is_waiting else OUTCOMES.get(row["outcome"], "idle")
        width, waited = round(max(LEAST, end - begun), 2), round(begun - asked, 2)
        bars.append(Bar(row, tone, round(begun, 2), width, waited, duration(length(row, last))))
    return Waterfall(tuple(bars), _marks(span))


def length(row: Mapping[str, Any], last: float) -> float:
    """The seconds from the beginning of a row to its end, or to the moment `last` if it is under way."""
    return (_seconds(row["ended"]) if row["ended"] else last) - _seconds(row["begun"] or row["asked"])


def _marks(span: float) -> tuple[Mark, ...]:
    step = _step(span / MARKS)
    count = int(span / step) + 1
    places = ((at, round(100 * step * at / span, 2)) for at in range(count))
    return tuple(Mark(x, duration(step * at).removesuffix(" 0 s") if at else "0") for at, x in places)


def _step(least: float) -> float:
    """The smallest round time of at least `seconds`, in seconds."""
    for step in (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400):
        if 30 < least <= step:
            return float(step)
    if least > 86400:
        return 86400.0 * (least // 86400 + 1)
    size = 10.0**-6
    while size * 10 < least:
        size *= 10
    return next(size * factor for factor in (1, 2, 5, 10) if size * factor >= least)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()

"""Figures over time as plain values for templates.

The waterfall of a run has a bar for each call and wait; other figures have one for each day, or for each run
of the last hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from narval.ask.text import in_shown_zone
from narval.core.definitions.reading.durations import duration
from narval.core.kinds import ENDED

SHORTEST = 0.3
"""The least width of a bar, in percent of the time."""

TIME_MARKS = 6
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
        width, waited = round(max(SHORTEST, end - begun), 2), round(begun - asked, 2)
        bars.append(Bar(row, tone, round(begun, 2), width, waited, duration(length(row, last))))
    return Waterfall(tuple(bars), _time_marks(span))


def length(row: Mapping[str, Any], last: float) -> float:
    """The seconds from the beginning of a row to its end, or to the moment `last` if it is under way."""
    return (_seconds(row["ended"]) if row["ended"] else last) - _seconds(row["begun"] or row["asked"])


def _time_marks(span: float) -> tuple[Mark, ...]:
    step = _step(span / TIME_MARKS)
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


# --- days -----------------------------------------------------------------------------------------------

DAY, BAR, TALL, HEAD, FOOT = 44.0, 30.0, 50.0, 18.0, 20.0
"""Pixels: the column of a day, its bar, the tallest bar, the space above for a number, below for the day."""

LEAST = 3.0
"""The least pixels of a part of a bar, for any number of runs above 0."""

STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 180, 240)
"""The possible minutes between marks of a scale."""

MARKS = 7
"""The most marks of a scale, roughly."""


class Part(msgspec.Struct, frozen=True):
    """A part of a bar: the runs of one phase."""

    phase: str
    y: float
    height: float


class Day(msgspec.Struct, frozen=True):
    """The bar of a day, starting at `x`: its runs, its parts from the bottom, and its upper edge."""

    row: Mapping[str, Any]
    x: float
    total: int
    parts: tuple[Part, ...]
    top: float

    @property
    def middle(self) -> float:
        """The middle of the bar, where its texts are."""
        return self.x + BAR / 2


class Days(msgspec.Struct, frozen=True):
    """The bars of several days, in pixels."""

    bars: tuple[Day, ...]
    width: float
    height: float = HEAD + TALL + FOOT
    ground: float = HEAD + TALL


def days(rows: Sequence[Mapping[str, Any]]) -> Days:
    """The bars for the rows of `figures`; the day with the most runs has the tallest."""
    most = max((_total(row) for row in rows), default=0) or 1
    return Days(tuple(_day(row, at, most) for at, row in enumerate(rows)), DAY * len(rows))


def _total(row: Mapping[str, Any]) -> int:
    return sum(row[phase] for phase in ENDED)


def _day(row: Mapping[str, Any], at: int, most: int) -> Day:
    parts, top = [], HEAD + TALL
    for phase in ENDED:
        if row[phase]:
            height = max(LEAST, round((TALL - 2 * LEAST) * row[phase] / most, 1))
            top = round(top - height, 1)
            parts.append(Part(phase, top, height))
    return Day(row, DAY * at + (DAY - BAR) / 2, _total(row), tuple(parts), top)


# --- runs of the last hour ------------------------------------------------------------------------------


class RunCall(msgspec.Struct, frozen=True):
    """A call within the bar of a run."""

    row: Mapping[str, Any]
    tone: str
    x: float
    width: float


class RunBar(msgspec.Struct, frozen=True):
    """A run over time, with its calls."""

    run: Mapping[str, Any]
    x: float
    width: float
    calls: tuple[RunCall, ...]

    @property
    def words_at(self) -> float:
        """The place of the text, behind the bar."""
        return round(self.x + self.width, 2)


class Gantt(msgspec.Struct, frozen=True):
    """The runs of a period with the scale above them, in percent of the period."""

    bars: tuple[RunBar, ...]
    marks: tuple[Mark, ...]


def gantt(answer: Mapping[str, Any]) -> Gantt:
    """The answer of `gantt`: a bar for each run, and in it one for each call."""
    first, last = _seconds(answer["since"]), _seconds(answer["until"])

    def place(text: str | None) -> float:
        at = _seconds(text) if text else last
        return 100 * min(1.0, max(0.0, (at - first) / (last - first)))

    def span(begun: str, ended: str | None) -> tuple[float, float]:
        x = place(begun)
        return round(x, 2), round(max(SHORTEST, place(ended) - x), 2)

    bars = []
    for run in answer["runs"]:
        calls = (
            RunCall(
                call,
                OUTCOMES.get(call["outcome"], "idle"),
                *span(call["begun"] or call["asked"], call["ended"]),
            )
            for call in run["calls"]
        )
        bars.append(RunBar(run, *span(run["started"], run["ended"]), tuple(calls)))
    marks = tuple(Mark(round(place(at.isoformat()), 2), f"{at:%H:%M}") for at in _marks(answer))
    return Gantt(tuple(bars), marks)


def _marks(answer: Mapping[str, Any]) -> Iterator[datetime]:
    """Round moments between the bounds of an answer, in the zone of the home."""
    since, until = (in_shown_zone(datetime.fromisoformat(answer[key])) for key in ("since", "until"))
    minutes = (until - since).total_seconds() / 60
    step = next((step for step in STEPS if step * MARKS >= minutes), STEPS[-1])
    at = since.replace(hour=0, minute=0, second=0, microsecond=0)
    at += timedelta(minutes=step) * ((since - at) // timedelta(minutes=step) + 1)
    while at < until:
        yield at
        at += timedelta(minutes=step)

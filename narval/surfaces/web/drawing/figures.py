"""Figures over time as plain values for templates: a bar for each day, or for each run of the last hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from narval.ask.text import in_shown_zone
from narval.core.kinds import ENDED
from narval.surfaces.web.drawing.waterfall import LEAST as SHORTEST
from narval.surfaces.web.drawing.waterfall import OUTCOMES, Mark

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
    first, last = _at(answer["since"]), _at(answer["until"])

    def place(text: str | None) -> float:
        at = _at(text) if text else last
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


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()

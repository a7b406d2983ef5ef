"""What is measured, with whom it takes turns, and the marks it is held to: `suites.tsv` and `marks.tsv`.

A *suite* is what takes turns: ours, then its peers, round after round, so that a ratio is of two runs that
lie seconds apart. A *mark* is a bound on a ratio of figures, or on a figure that hardly depends on the
machine, such as bytes. Where a mark was set in microseconds it is told as a multiple of what the limit takes,
because absolute times say nothing on another machine.
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any, NamedTuple

Lines = dict[str, dict[str, Any]]
"""The lines of one round, by case."""

PEER = "-"
"""Stands for the command of a case that is not ours."""


class Case(NamedTuple):
    """Something that prints a line; a peer's case is named `workload/case`, as its catalogue has them."""

    name: str
    command: str

    @property
    def is_ours(self) -> bool:
        """Whether it is a module of this folder, with its arguments."""
        return self.command != PEER


class Suite(NamedTuple):
    """Cases that take turns."""

    name: str
    rounds: int
    cases: tuple[Case, ...]


class Figure(NamedTuple):
    """A field of the line of a case."""

    case: str
    field: str

    def of(self, lines: Lines) -> float | None:
        """Its value in a round, if the case came to an end."""
        value = lines.get(self.case, {}).get(self.field)
        return float(value) if isinstance(value, int | float) else None


class Mark(NamedTuple):
    """A bound on the product of some figures over the product of others."""

    workload: str
    what: str
    of: tuple[Figure, ...]
    over: tuple[Figure, ...]
    bound: str
    unit: str

    def value(self, lines: Lines) -> float | None:
        """What it is in a round, where all its figures are there."""
        above = [value for figure in self.of if (value := figure.of(lines)) is not None]
        below = [value for figure in self.over if (value := figure.of(lines)) is not None]
        if len(above) < len(self.of) or len(below) < len(self.over) or 0.0 in below:
            return None
        return prod(above) / prod(below)

    def met(self, value: float) -> bool | None:
        """Whether a value keeps the bound; None when it has none and is only told."""
        if self.bound == PEER:
            return None
        bound = float(self.bound[2:])
        return value >= bound if self.bound.startswith(">=") else value <= bound


def suites() -> list[Suite]:
    """All there are, in order."""
    by_name: dict[str, Suite] = {}
    for name, rounds, case, command in _rows("suites.tsv"):
        before = by_name.get(name, Suite(name, int(rounds), ()))
        by_name[name] = before._replace(cases=(*before.cases, Case(case, command)))
    return list(by_name.values())


def marks() -> list[Mark]:
    """All there are, in order."""
    return [
        Mark(workload, what, _figures(of), _figures(over), bound, unit)
        for workload, what, of, over, bound, unit in _rows("marks.tsv")
    ]


def _figures(text: str) -> tuple[Figure, ...]:
    return tuple(Figure(*each.split(":")) for each in text.split() if each != PEER)


def _rows(name: str) -> list[list[str]]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]

"""Curves of growth, drawn as SVG: what one costs as there are more of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, log10
from pathlib import Path
from typing import Any, NamedTuple

from bench.marks import Lines

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 360, 64, 160, 36, 48
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


class Curve(NamedTuple):
    """One line of a plot: its name, the cases that it goes through by their sizes, and the field."""

    name: str
    cases: dict[int, str]
    field: str


class Plot(NamedTuple):
    """A plot with logarithmic axes."""

    file: str
    title: str
    across: str
    up: str
    curves: tuple[Curve, ...]


def _by(pattern: str, *sizes: int) -> dict[int, str]:
    return {size: pattern.format(size) for size in sizes}


TENS = (10, 100, 1_000, 10_000, 100_000)
PLOTS = (
    Plot(
        "performance-steps.svg",
        "W1: a step in memory",
        "steps of one run, or runs of ten steps",
        "µs a step",
        (
            Curve("1 run of n steps", _by("W1-1x{}", *TENS[:4], 50_000), "us_per_step"),
            Curve("n runs of 10 steps", _by("W1-{}x10", *TENS[:4]), "us_per_step"),
        ),
    ),
    Plot(
        "performance-conditions.svg",
        "W3: an element added, and who waited for it known",
        "conditions that wait",
        "µs",
        (
            Curve("narval", _by("W3-{}", 100, *TENS[2:]), "us_per_element"),
            Curve("limit: hash, lxml", _by("W3-{}/limit-dict-lxml", *TENS[2:]), "us_per_element"),
            Curve("registering one", _by("W3-{}", 100, *TENS[2:]), "register_us"),
        ),
    ),
    Plot(
        "performance-memory.svg",
        "W8: a memory that grows",
        "elements",
        "µs",
        (
            Curve("adding the next", _by("W8-{}", *TENS[2:], 1_000_000), "add_us"),
            Curve("a plan that takes one", _by("W8-{}", *TENS[2:], 1_000_000), "assign_us"),
        ),
    ),
)


def draw(folder: Path, results: dict[str, list[Lines]]) -> None:
    """Draw those plots whose cases were measured."""
    lines = [each for every in results.values() for each in every]
    for plot in PLOTS:
        curves = {curve.name: list(_points(curve, lines)) for curve in plot.curves}
        if any(curves.values()):
            (folder / plot.file).write_text("\n".join(_svg(plot, curves)) + "\n", encoding="utf-8")


def _points(curve: Curve, lines: Sequence[Lines]) -> Iterator[tuple[int, float]]:
    """Size and the least that was measured, smallest first: what took longer was held up by others."""
    for size, case in sorted(curve.cases.items()):
        values = [each[case][curve.field] for each in lines if curve.field in each.get(case, {})]
        if values:
            yield size, min(values)


class _Scale:
    """From values to places, by their logarithms."""

    def __init__(self, values: Sequence[float], start: float, end: float, *, whole: bool) -> None:
        low, high = log10(min(values)), log10(max(values))
        self.low = floor(low) if whole else low - 0.1
        self.high = floor(high) + 1 if whole else high + 0.1
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        """Where a value lies."""
        share = (log10(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """The powers of ten, and in between where there are few of them."""
        powers = range(floor(self.low), floor(self.high) + 2)
        within = [10.0**power for power in powers if self.low <= power <= self.high]
        if len(within) < 3:
            several = (factor * 10.0**power for power in powers for factor in (1, 2, 5))
            within = [each for each in several if self.low <= log10(each) <= self.high]
        return within


def _svg(plot: Plot, curves: dict[str, list[tuple[int, float]]]) -> Iterator[str]:
    points = [point for each in curves.values() for point in each]
    x = _Scale([size for size, _ in points], LEFT, WIDTH - RIGHT, whole=False)
    y = _Scale([value for _, value in points], HEIGHT - BOTTOM, TOP, whole=True)
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="12">'
    )
    yield f"<title>{plot.title}</title>"
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    yield _text(LEFT, 20, plot.title, size=14)
    for value in y.ticks():
        yield _line(LEFT, y.at(value), WIDTH - RIGHT, y.at(value), "#dddddd")
        yield _text(LEFT - 8, y.at(value) + 4, f"{value:g}", anchor="end")
    for value in x.ticks():
        yield _line(x.at(value), TOP, x.at(value), HEIGHT - BOTTOM, "#eeeeee")
        yield _text(x.at(value), HEIGHT - BOTTOM + 18, f"{value:,.0f}", anchor="middle")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, plot.across, anchor="middle")
    yield _text(12, TOP - 6, plot.up)
    for colour, (name, each) in zip(COLOURS, curves.items(), strict=False):
        if not each:
            continue
        path = " ".join(f"{x.at(size)},{y.at(value)}" for size, value in each)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for size, value in each:
            yield (
                f'<circle cx="{x.at(size)}" cy="{y.at(value)}" r="3" fill="{colour}">'
                f"<title>{size:,}: {value:.3g}</title></circle>"
            )
        yield _text(x.at(each[-1][0]) + 8, y.at(each[-1][1]) + 4, name, colour=colour)
    yield "</svg>"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, **style: Any) -> str:
    anchor, colour, size = style.get("anchor", "start"), style.get("colour", "#333333"), style.get("size", 12)
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{text}</text>'

"""Drawings of graphs as plain values for the template that makes the SVG: boxes, texts, paths, in order.

No markup is made here: every text goes through the template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from narval.surfaces.http.page import Patch
from narval.surfaces.web.drawing.layout import Box, Layout, Point

_ARROW, _HALF = 8.0, 3.6
_FIRST, _LINE = 17.0, 16.0


class TextLine(msgspec.Struct, frozen=True):
    """A line of text at a place."""

    text: str
    x: float
    y: float


class DrawnPart(msgspec.Struct, frozen=True):
    """A part as it is drawn: `key` is the id of its SVG element, `url` its page."""

    key: str
    url: str
    part: Mapping[str, Any]
    box: Box
    lines: tuple[TextLine, ...]

    @property
    def left(self) -> float:
        """The left edge."""
        return round(self.box.x - self.box.width / 2, 1)

    @property
    def top(self) -> float:
        """The upper edge."""
        return round(self.box.y - self.box.height / 2, 1)


class DrawnArc(msgspec.Struct, frozen=True):
    """An arc as it is drawn: a path, the tip at its end, and its text in the middle."""

    key: str
    arc: Mapping[str, Any]
    path: str
    tip: str
    label: TextLine | None


class Drawing(msgspec.Struct, frozen=True):
    """A graph with the places of all it shows, in pixels."""

    width: float
    height: float
    parts: tuple[DrawnPart, ...]
    arcs: tuple[DrawnArc, ...]
    frames: tuple[tuple[str, Box], ...]


def part_key(index: int) -> str:
    """The id of the SVG element of a part, by its place in the list."""
    return f"p{index}"


def arc_key(index: int) -> str:
    """The id of the SVG element of an arc, by its place in the list."""
    return f"a{index}"


def patches(drawn: Mapping[str, Any]) -> list[Patch]:
    """The states of parts and arcs, for a page that is open."""
    parts = [
        Patch(part_key(index), part["state"], part["tone"], str(part.get("badge") or ""))
        for index, part in enumerate(drawn["parts"])
    ]
    arcs = [Patch(arc_key(index), arc["state"], arc["state"]) for index, arc in enumerate(drawn["arcs"])]
    return parts + arcs


def drawing(drawn: Mapping[str, Any], layout: Layout, url: Callable[[str], str]) -> Drawing:
    """A graph drawn by a layout; `url` gives the page of a part by its id."""
    parts = tuple(
        DrawnPart(part_key(index), url(part["id"]), part, box, _lines(part, box))
        for index, (part, box) in enumerate(zip(drawn["parts"], layout.boxes, strict=True))
    )
    arcs = tuple(
        DrawnArc(arc_key(index), arc, *_arc(points, str(arc.get("text") or "")))
        for index, (arc, points) in enumerate(zip(drawn["arcs"], layout.curves, strict=True))
        if len(points) > 3
    )
    return Drawing(layout.width, layout.height, parts, arcs, _frames(parts))


def _lines(part: Mapping[str, Any], box: Box) -> tuple[TextLine, ...]:
    if part.get("shape") == "bar":
        height = _LINE * 0.9
        first = box.y - height * (len(part["text"]) - 1) / 2 + 4
        return tuple(
            TextLine(text, box.x, round(first + height * at, 1)) for at, text in enumerate(part["text"])
        )
    left, top = box.x - box.width / 2 + 10, box.y - box.height / 2 + _FIRST
    return tuple(
        TextLine(text, round(left, 1), round(top + _LINE * at, 1)) for at, text in enumerate(part["text"])
    )


def _arc(points: tuple[Point, ...], text: str) -> tuple[str, str, TextLine | None]:
    first, *others = points
    pairs = " ".join(f"{x:g},{y:g}" for x, y in others)
    middle = points[len(points) // 2]
    label = TextLine(text, round(middle[0] + 5, 1), middle[1]) if text else None
    return f"M{first[0]:g},{first[1]:g} C{pairs}", _tip(points[-2], points[-1]), label


def _tip(before: Point, end: Point) -> str:
    """The three corners of the tip of an arrow."""
    away = (end[0] - before[0], end[1] - before[1])
    length = (away[0] ** 2 + away[1] ** 2) ** 0.5 or 1.0
    x, y = away[0] / length, away[1] / length
    base = (end[0] - x * _ARROW, end[1] - y * _ARROW)
    corners = (end, (base[0] - y * _HALF, base[1] + x * _HALF), (base[0] + y * _HALF, base[1] - x * _HALF))
    return " ".join(f"{round(a, 1):g},{round(b, 1):g}" for a, b in corners)


def _frames(parts: tuple[DrawnPart, ...]) -> tuple[tuple[str, Box], ...]:
    """The frames around parts that belong together, with room for their names."""
    members: dict[str, list[Box]] = {}
    for drawn in parts:
        if drawn.part.get("frame"):
            members.setdefault(str(drawn.part["frame"]), []).append(drawn.box)
    return tuple((name, _around(boxes)) for name, boxes in members.items())


def _around(boxes: list[Box]) -> Box:
    left, right = min(box.x - box.width / 2 for box in boxes), max(box.x + box.width / 2 for box in boxes)
    top, bottom = min(box.y - box.height / 2 for box in boxes), max(box.y + box.height / 2 for box in boxes)
    space = 10.0
    width, height = right - left + 2 * space, bottom - top + 2 * space + 6
    return Box(
        round((left + right) / 2, 1), round((top + bottom) / 2 - 3, 1), round(width, 1), round(height, 1)
    )

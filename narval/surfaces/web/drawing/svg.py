"""Drawings of graphs as plain values for the template that makes the SVG: boxes, texts, paths, in order.

No markup is made here: every text passes through the template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise, product
from typing import Any

import msgspec

from narval.surfaces.http.page import Patch
from narval.surfaces.web.drawing.layout import Box, Layout, Point

_ARROW, _HALF = 8.0, 3.6
_FIRST, _LINE = 17.0, 16.0

LONGEST = 40
"""The most characters drawn of an arc's text."""

_CHARACTER, _LETTER = 6.7, 10.0
"""The width and height of a letter of such a text, in pixels."""

_STROKE = 2.0
"""Half the width that an arc occupies, in pixels."""

_SHARES = (0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9)
"""The possible places of an arc's text along it, the best first, as shares of its length."""

Room = tuple[float, float, float, float]
"""The left, upper, right and lower edge of something drawn."""


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
    """A graph with the places of everything in it, in pixels."""

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
    """The states of parts and arcs, for an open page."""
    parts = [
        Patch(part_key(index), part["state"], part["tone"], str(part.get("badge") or ""))
        for index, part in enumerate(drawn["parts"])
    ]
    arcs = [
        Patch(arc_key(index), arc["state"], arc["state"], str(arc.get("badge") or ""))
        for index, arc in enumerate(drawn["arcs"])
    ]
    return parts + arcs


def drawing(drawn: Mapping[str, Any], layout: Layout, url: Callable[[str], str]) -> Drawing:
    """A graph drawn by a layout; `url` gives the page of a part by its id."""
    parts = tuple(
        DrawnPart(part_key(index), url(part["id"]), part, box, _lines(part, box))
        for index, (part, box) in enumerate(zip(drawn["parts"], layout.boxes, strict=True))
    )
    curves = [
        (index, arc, points)
        for index, (arc, points) in enumerate(zip(drawn["arcs"], layout.curves, strict=True))
        if len(points) > 3
    ]
    labels = _labels(layout.boxes, [(points, arc) for _, arc, points in curves])
    arcs = tuple(
        DrawnArc(arc_key(index), arc, *_arc(points), label)
        for (index, arc, points), label in zip(curves, labels, strict=True)
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


def _arc(points: tuple[Point, ...]) -> tuple[str, str]:
    first, *others = points
    pairs = " ".join(f"{x:g},{y:g}" for x, y in others)
    return f"M{first[0]:g},{first[1]:g} C{pairs}", _tip(points[-2], points[-1])


def _labels(
    boxes: tuple[Box, ...], arcs: list[tuple[tuple[Point, ...], Mapping[str, Any]]]
) -> list[TextLine | None]:
    """The texts of arcs, each at a place where it covers no part, text or arc, and not the best place of a
    later text. If its arc has no such place, it gets the place where it covers least.
    """
    taken, later = _Cells(), _Cells()
    for box in boxes:
        right, lower = box.x + box.width / 2, box.y + box.height / 2
        taken.add((box.x - box.width / 2, box.y - box.height / 2, right, lower))
    rooms = [_rooms(points, arc) for points, arc in arcs]
    for (points, _), places in zip(arcs, rooms, strict=True):
        if places:
            later.add(places[0])
        for x, y in _points_on(points):
            later.add((x - _STROKE, y - _STROKE, x + _STROKE, y + _STROKE))
    lines: list[TextLine | None] = []
    for (_, arc), places in zip(arcs, rooms, strict=True):
        if not places:
            lines.append(None)
            continue
        later.remove(places[0])
        room = min(places, key=lambda place: (taken.covered(place), later.covered(place)))
        taken.add(room)
        lines.append(TextLine(str(arc["text"]), round(room[0], 1), round(room[1] + _LETTER, 1)))
    return lines


class _Cells:
    """The occupied places, by squares of the drawing, so that few are checked for a new place."""

    SIDE = 50.0

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], list[Room]] = {}

    def add(self, room: Room) -> None:
        """Record something drawn at a place."""
        for cell in self._of(room):
            self._cells.setdefault(cell, []).append(room)

    def remove(self, room: Room) -> None:
        """Forget something drawn at a place."""
        for cell in self._of(room):
            self._cells[cell].remove(room)

    def covered(self, room: Room) -> float:
        """The area of the drawing that something at a place would cover."""
        near = {other for cell in self._of(room) for other in self._cells.get(cell, ())}
        return sum(
            (min(room[2], other[2]) - max(room[0], other[0]))
            * (min(room[3], other[3]) - max(room[1], other[1]))
            for other in near
            if _overlap(room, other)
        )

    def _of(self, room: Room) -> Iterator[tuple[int, int]]:
        left, upper, right, lower = (int(edge // self.SIDE) for edge in room)
        return product(range(left, right + 1), range(upper, lower + 1))


def _rooms(points: tuple[Point, ...], arc: Mapping[str, Any]) -> list[Room]:
    """The places that the text of an arc may have with its badge, right and left of it, the best first."""
    text, badge = str(arc.get("text") or ""), str(arc.get("badge") or "")
    if not text:
        return []
    width = _CHARACTER * (min(len(text), LONGEST) + len(badge) + bool(badge))
    curves = [points[at : at + 4] for at in range(0, len(points) - 3, 3)]
    places = [_on_curve(curves, share) for share in _SHARES]
    sides = [(x + 5, y) for x, y in places] + [(x - 5 - width, y) for x, y in places]
    return [(x, y - _LETTER, x + width, y + 2) for x, y in sides]


def _points_on(points: tuple[Point, ...]) -> Iterator[Point]:
    """Points along an arc, close enough that no text fits unnoticed between two of them."""
    curves = [points[at : at + 4] for at in range(0, len(points) - 3, 3)]
    length = sum(abs(x - a) + abs(y - b) for (a, b), (x, y) in pairwise(points))
    number = max(1, int(length / _LETTER))
    return (_on_curve(curves, at / number) for at in range(number))


def _overlap(one: Room, other: Room) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _on_curve(curves: list[tuple[Point, ...]], share: float) -> Point:
    """The point at a share of the way along Bézier curves that follow one another."""
    at = min(int(share * len(curves)), len(curves) - 1)
    t = share * len(curves) - at
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
    x, y = (
        sum(weight * point[axis] for weight, point in zip(weights, curves[at], strict=True))
        for axis in (0, 1)
    )
    return x, y


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

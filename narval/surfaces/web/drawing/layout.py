"""Layouts: the places of the parts of a graph and the paths of its arcs, computed once for each structure.

Graphviz gets only numbers and sizes, never a text (M73), and only those that decide the places. So all runs,
moments and states of a definition share a layout, which is cached in a folder under its digest.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

TIME, MEMORY, OUTPUT = 10, 512 * 2**20, 16 * 2**20
"""The most seconds and bytes of memory of Graphviz for a layout, and bytes of its answer."""

AT_ONCE = 2
"""The most programs that run at a time; others wait."""

AGAIN = 600.0
"""Seconds after which a failed layout is tried again."""

POINTS = 72.0
"""The pixels of a drawing for an inch of Graphviz."""

MOST = 1_500
"""The most parts of a layout; a larger graph is shown as a table."""

KEPT = 500
"""The most layouts kept in the folder, the newest."""

_CHARACTER, _LINE, _MARGIN, _BADGE = 7.0, 16.0, 12.0, 14.0
_NARROWEST, _FRAME = 96.0, 14.0

Point = tuple[float, float]


class Box(msgspec.Struct, frozen=True, array_like=True):
    """The place of a part: its centre and size, in pixels."""

    x: float
    y: float
    width: float
    height: float


class Layout(msgspec.Struct, frozen=True):
    """The size of a drawing, and the boxes of its parts and the points of its arcs, in their order."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    curves: tuple[tuple[Point, ...], ...]


def size_of(part: Mapping[str, Any]) -> tuple[float, float]:
    """The width and height of a part in pixels, from its texts, with room for a badge."""
    lines = part["text"]
    if part.get("shape") == "bar":
        longest = max(map(len, lines), default=0)
        return max(_NARROWEST * 0.6, longest * _CHARACTER * 0.92 + 2 * _MARGIN), 10 + _LINE * 0.9 * len(lines)
    longest = max((len(line) for line in lines), default=0)
    return max(_NARROWEST, longest * _CHARACTER + 2 * _MARGIN + _BADGE), _LINE * len(lines) + _MARGIN + 4


def source(drawn: Mapping[str, Any]) -> str:
    """The input of Graphviz: `n0` and sizes, `n0->n1`, and clusters by number."""
    number = {part["id"]: index for index, part in enumerate(drawn["parts"])}
    apart = f"nodesep={drawn.get('apart', 0.35)};ranksep={drawn.get('apart', 0.45)};"
    lines = [f"digraph{{rankdir=TB;{apart}node[shape=box,fixedsize=true];edge[arrowhead=none];"]
    frames: dict[str, list[int]] = {}
    for index, part in enumerate(drawn["parts"]):
        width, height = size_of(part)
        lines.append(f"n{index}[width={width / POINTS:.3f},height={height / POINTS:.3f}];")
        if part.get("frame"):
            frames.setdefault(part["frame"], []).append(index)
    for at, members in enumerate(frames.values()):
        lines.append(f"subgraph cluster{at}{{margin={_FRAME:.0f};{';'.join(f'n{one}' for one in members)};}}")
    lines += [
        f"n{number[arc['from']]}->n{number[arc['to']]};"
        for arc in drawn["arcs"]
        if arc["from"] in number and arc["to"] in number
    ]
    return "\n".join([*lines, "}"])


class Layouts:
    """The layouts, cached in a folder; without one they are computed each time."""

    def __init__(self, folder: Path | None = None, patience: float = TIME + 2.0) -> None:
        self._folder, self._program, self._patience = folder, shutil.which("dot"), patience
        self._making: dict[str, asyncio.Future[Layout | None]] = {}
        self._known: dict[str, Layout] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._refused: dict[str, float] = {}
        """The moments of failed layouts, by digest."""

    async def of(self, drawn: Mapping[str, Any]) -> Layout | None:
        """The layout of a graph; None if Graphviz is missing or failed, or the graph is too large."""
        if self._program is None or not drawn["parts"] or len(drawn["parts"]) > MOST:
            return None
        digest = str(drawn["layout"])
        layout = self._known.get(digest) or self._kept(digest)
        if layout is not None and len(layout.boxes) == len(drawn["parts"]):
            return self._remember(digest, layout)
        if time.monotonic() - self._refused.get(digest, -AGAIN) < AGAIN:
            return None
        if (making := self._making.get(digest)) is None:
            making = self._making[digest] = asyncio.ensure_future(self._made(self._program, drawn))
            making.add_done_callback(lambda _: self._making.pop(digest, None))
        made = await asyncio.shield(making)
        if made is None:
            self._refused[digest] = time.monotonic()
            while len(self._refused) > KEPT:
                del self._refused[next(iter(self._refused))]
            return None
        self._remember(digest, made)
        self._keep(digest, made)
        return made

    def _remember(self, digest: str, layout: Layout) -> Layout:
        self._known[digest] = layout
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        return layout

    async def _made(self, program: str, drawn: Mapping[str, Any]) -> Layout | None:
        async with self._places:
            try:
                if self._folder is not None:
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                plain = await _answer(program, source(drawn).encode("ascii"), self._patience, self._folder)
            except OSError:  # the program is missing, or nothing can be started or written
                return None
        try:
            return read_plain(plain.decode("ascii"), len(drawn["parts"]), drawn)
        except (ValueError, IndexError):  # no answer, or not of Graphviz
            return None

    def _file(self, digest: str) -> Path | None:
        is_plain = digest.isascii() and digest.isalnum()
        return self._folder / f"{digest}.json" if self._folder is not None and is_plain else None

    def _kept(self, digest: str) -> Layout | None:
        file = self._file(digest)
        if file is None:
            return None
        try:
            return msgspec.json.decode(file.read_bytes(), type=Layout)
        except (OSError, msgspec.DecodeError):  # missing or incomplete: it is computed again
            return None

    def _keep(self, digest: str, layout: Layout) -> None:
        file = self._file(digest)
        if file is None:
            return
        with contextlib.suppress(OSError):  # the file is only a cache
            with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as written:
                written.write(msgspec.json.encode(layout))
            os.replace(written.name, file)
            files = sorted(file.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
            for old in files[:-KEPT]:
                old.unlink(missing_ok=True)


async def _answer(program: str, text: bytes, patience: float, folder: Path | None) -> bytes:
    """The output of Graphviz; empty if it failed, wrote too much or took too long. Raises OSError.

    Its input and output are unnamed files, in the folder of layouts if there is one.
    """
    with tempfile.TemporaryFile(dir=folder) as request, tempfile.TemporaryFile(dir=folder) as answered:
        request.write(text)
        request.seek(0)
        dot = await asyncio.create_subprocess_exec(
            program, "-Tplain",
            stdin=request, stdout=answered, stderr=asyncio.subprocess.DEVNULL, preexec_fn=_limits, env={},
        )  # fmt: skip
        try:
            async with asyncio.timeout(patience):
                failed = await dot.wait()
        except TimeoutError:
            return b""
        finally:
            if dot.returncode is None:
                dot.kill()
                await dot.wait()
        answered.seek(0)
        return b"" if failed else answered.read()


def _limits() -> None:
    """Set the limits of the program before it starts."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT, OUTPUT))
    resource.setrlimit(resource.RLIMIT_CPU, (TIME, TIME))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def read_plain(text: str, count: int, drawn: Mapping[str, Any]) -> Layout | None:
    """The layout in Graphviz's plain format; None if it does not match these parts."""
    width = height = 0.0
    boxes: dict[int, Box] = {}
    points_of: dict[tuple[str, str], list[tuple[Point, ...]]] = {}
    for line in text.splitlines():
        word, *rest = line.split(" ")
        if word == "graph":
            width, height = float(rest[1]) * POINTS, float(rest[2]) * POINTS
        elif word == "node":
            x, y, wide, high = (float(number) * POINTS for number in rest[1:5])
            boxes[int(rest[0][1:])] = Box(*_rounded(x, height - y, wide, high))
        elif word == "edge":
            numbers = [float(number) * POINTS for number in rest[3 : 3 + 2 * int(rest[2])]]
            points = tuple(_rounded(x, height - y) for x, y in zip(numbers[::2], numbers[1::2], strict=True))
            points_of.setdefault((rest[0], rest[1]), []).append(points)
    if len(boxes) != count:
        return None
    curves = {key: iter(listed) for key, listed in points_of.items()}
    number = {part["id"]: index for index, part in enumerate(drawn["parts"])}
    ways = tuple(_way(curves, number, arc) for arc in drawn["arcs"])
    return Layout(round(width, 1), round(height, 1), tuple(boxes[index] for index in range(count)), ways)


def _way(
    curves: Mapping[tuple[str, str], Iterator[tuple[Point, ...]]],
    number: Mapping[str, int],
    arc: Mapping[str, Any],
) -> tuple[Point, ...]:
    """The points of an arc: those between two parts come in their order."""
    ends = (f"n{number.get(arc['from'])}", f"n{number.get(arc['to'])}")
    return next(curves.get(ends, iter(())), ())


def _rounded(*numbers: float) -> Any:
    return tuple(round(number, 1) for number in numbers)

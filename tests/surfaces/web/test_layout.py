"""Graphviz: it is given no text, and whatever it does, there is a page (M73, M80, M81)."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import narval
from narval.surfaces.web.drawing.derived import correspondence
from narval.surfaces.web.drawing.layout import Layouts, source
from narval.surfaces.web.drawing.svg import drawing
from tests.places import ROOT

SAFE = re.compile(r"[a-z0-9=.,;>\"\[\]{} \n-]*", re.ASCII)
"""The text that Graphviz may be given: `rankdir=TB` is the one word of ours with great letters."""

ODD = ['"]; x [URL="javascript:x', "<b>", "\\N", "a\nb", "}", "n0", "", "\u202e", "\ud800", "y" * 10_000]
texts = st.one_of(st.sampled_from(ODD), st.text(max_size=12))


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    """A graph with hostile ids, texts, shapes and frames, and arcs between any of them."""
    ids = draw(st.lists(texts, min_size=1, max_size=7, unique=True))
    parts = [
        {
            "id": id,
            "text": draw(st.lists(texts, max_size=3)),
            "shape": draw(st.sampled_from(["box", "bar", "final", '"];', ""])),
            "frame": draw(st.one_of(st.just(""), texts)),
        }
        for id in ids
    ]
    ends = st.one_of(st.sampled_from(ids), texts)
    arcs = [
        {"from": one, "to": two, "text": "x"}
        for one, two in draw(st.lists(st.tuples(ends, ends), max_size=9))
    ]
    return {"parts": parts, "arcs": arcs, "layout": "x1"}


@given(graphs())
@settings(deadline=None)
def test_M73_graphviz_is_given_numbers_and_sizes_alone(drawn: dict[str, Any]) -> None:
    text = source(drawn)
    assert SAFE.fullmatch(text.replace("rankdir=TB", "")), text
    assert text.count("[width=") == len(drawn["parts"])


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@given(graphs())
@settings(deadline=None, max_examples=12)
def test_M73_whatever_ids_and_texts_are_each_part_has_its_place(drawn: dict[str, Any]) -> None:
    layout = asyncio.run(Layouts().of(drawn))
    assert layout is not None
    named = [{**part, "state": "", "tone": "idle", "badge": ""} for part in drawn["parts"]]
    if all(part["text"] for part in named):
        made = drawing({**drawn, "parts": named}, layout, lambda part: "/")
        assert len(made.parts) == len(drawn["parts"])


PART = {"text": ["a"], "shape": "box", "frame": ""}
TWO = {
    "parts": [{**PART, "id": "a"}, {**PART, "id": "b"}],
    "arcs": [{"from": "a", "to": "b"}],
    "layout": "x2",
}


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_the_texts_of_arcs_cover_one_another_nowhere() -> None:
    names = "abcdefg"
    arcs = [
        {"from": one, "to": two, "text": f"when {one} gives {two}"}
        for one in names
        for two in names
        if one < two
    ]
    parts = [{**PART, "id": name, "state": "", "tone": "idle", "badge": ""} for name in names]
    drawn = {"parts": parts, "arcs": arcs, "layout": "x3"}
    layout = asyncio.run(Layouts().of(drawn))
    assert layout is not None
    labels = [arc.label for arc in drawing(drawn, layout, lambda part: "/").arcs if arc.label]
    assert len(labels) == len(arcs)
    near = [
        (one.text, other.text)
        for at, one in enumerate(labels)
        for other in labels[:at]
        if abs(one.x - other.x) < 6.7 * len(one.text) and abs(one.y - other.y) < 10
    ]
    assert near == []


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_the_texts_of_agents_that_all_send_to_one_another_lie_on_no_arc() -> None:
    names = ("calendar", "mail", "purchases")
    ways = [(one, two) for one in names for two in names if one != two]
    pairs = [{"from": one, "to": two, "sent": 12, "open": 3 * ((one, two) == ways[0])} for one, two in ways]
    drawn = correspondence(pairs, [{"name": name, "elements": 1_204, "runs": 1} for name in names])
    layout = asyncio.run(Layouts().of(drawn))
    assert layout is not None
    made = drawing(drawn, layout, lambda part: "/")
    assert [line.text for line in made.parts[0].lines] == ["calendar", "1,204 elements, 1 run"]
    texts = [arc.label for arc in made.arcs if arc.label]
    assert sorted(line.text for line in texts) == ["12"] * 5 + ["12, 3 wait"]
    rooms = [(line.x, line.y - 8, line.x + 6.6 * len(line.text), line.y) for line in texts]
    points = [point for curve in layout.curves for point in points_on(curve)]
    assert [(room, (x, y)) for room in rooms for x, y in points if overlap(room, (x, y, x, y))] == []


def points_on(curve: tuple[tuple[float, float], ...]) -> Iterator[tuple[float, float]]:
    """A hundred points on each of the Bézier curves that follow one another."""
    for at in range(0, len(curve) - 3, 3):
        for step in range(100):
            t = step / 100
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            ends = list(zip(weights, curve[at : at + 4], strict=True))
            yield sum(w * x for w, (x, _) in ends), sum(w * y for w, (_, y) in ends)


EXAMPLES = ROOT / "recipes" / "examples"
SHIPPED = {"shops": "shops.Morning", "flats": "flats.Flats", "theaters": "theaters.Evening"}
"""Dataflows that ship, whose streams have names that are long for their drawings."""


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_the_names_of_streams_cover_neither_one_another_nor_an_operator() -> None:
    with narval.open() as agent:
        for file, name in SHIPPED.items():
            agent.load(EXAMPLES / f"{file}.plan")
            drawn = agent.ask("drawn", definition=name)
            layout = asyncio.run(Layouts().of(drawn))
            assert layout is not None
            made = drawing(drawn, layout, lambda part: "/")
            texts = [
                (arc.label.x, arc.label.y - 9, arc.label.x + 6.6 * len(arc.label.text), arc.label.y)
                for arc in made.arcs
                if arc.label
            ]
            boxes = [
                (one.left, one.top, one.left + one.box.width, one.top + one.box.height) for one in made.parts
            ]
            assert len(texts) > 10
            for at, text in enumerate(texts):
                assert [other for other in (*texts[:at], *boxes) if overlap(text, other)] == [], name


def overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """True if one rectangle covers some of the other."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.mark.parametrize(
    "script",
    [
        "exec sleep 1000",
        "kill -9 $$",
        "exit 3",
        "exec yes 'node n0 1 1 1 1'",
        "printf 'graph 1 x y\\nnode n0'",
        "printf 'node n7 1 1 1 1\\n'",
        "printf '\\377\\000'",
        "exec cat /dev/zero",
        "cat",
        "exit 0",
    ],
)
def test_M81_a_program_that_hangs_dies_floods_or_lies_gives_no_layout(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dot = tmp_path / "dot"
    dot.write_text(f"#!/bin/sh\nPATH=/bin:/usr/bin\necho >> {tmp_path}/begun\n{script}\n")
    dot.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    layouts = Layouts(tmp_path / "kept", patience=1.0)

    async def asked() -> list[Any]:
        return [await layouts.of(TWO), *await asyncio.gather(*(layouts.of(TWO) for _ in range(5)))]

    assert asyncio.run(asked()) == [None] * 6
    assert (tmp_path / "begun").read_text().count("\n") == 1  # it is not tried again at once
    assert not list(tmp_path.glob("kept/*"))


def test_M81_without_the_program_there_is_no_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dot = tmp_path / "dot"
    dot.write_text("#!/bin/sh\n")
    dot.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    layouts = Layouts()
    dot.unlink()  # it was there when narval web began
    assert asyncio.run(layouts.of(TWO)) is None
    assert asyncio.run(Layouts().of(TWO)) is None


def test_M81_a_graph_of_very_many_parts_is_not_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dot").write_text(f"#!/bin/sh\n: > {tmp_path}/begun\n")
    (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    parts = [{**PART, "id": str(number)} for number in range(1_501)]
    assert asyncio.run(Layouts().of({"parts": parts, "arcs": [], "layout": "x3"})) is None
    assert not (tmp_path / "begun").exists()
    assert asyncio.run(Layouts().of({"parts": parts[1:], "arcs": [], "layout": "x4"})) is None
    assert (tmp_path / "begun").exists()


def test_M80_a_kept_layout_of_other_parts_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "dot").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "dot").chmod(0o755)
    (tmp_path / "x2.json").write_text('{"width":1,"height":1,"boxes":[],"curves":[]}')
    assert asyncio.run(Layouts(tmp_path).of(TWO)) is None

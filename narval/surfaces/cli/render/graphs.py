"""Graphs for people: runs and definitions as tables of their parts, or drawn by Graphviz's program `dot`;
origins of elements as lines indented by distance.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from narval.ask.text import Row, clean, moment_in_zone
from narval.core.errors import SurroundingsError
from narval.surfaces.cli.render.tables import Column, table

LONGEST = 60.0
"""The most seconds for a drawing."""

_TONE_COLOURS = {
    "waiting": "blue", "active": "yellow", "done": "green", "failed": "red", "cancelled": "magenta",
    "idle": "dim",
}  # fmt: skip


def graph(drawn: Mapping[str, Any]) -> None:
    """Write the parts of a graph, each with its state and the parts that it leads to."""
    leads: dict[str, list[str]] = {}
    for arc in drawn["arcs"]:
        details = ", ".join(filter(None, (arc["text"], arc["badge"])))
        leads.setdefault(arc["from"], []).append(f"{arc['to']} ({details})" if details else arc["to"])
    columns = (
        Column("part", lambda row: row["id"]),
        Column("kind", lambda row: row["kind"]),
        Column("state", lambda row: f"{row['state']} {row['badge']}".rstrip(), style=_colour),
        Column("target", lambda row: row["target"]),
        Column("leads to", lambda row: ", ".join(leads.get(row["id"], ()))),
    )
    table(columns, drawn["parts"])


def _colour(row: Mapping[str, Any]) -> str:
    return _TONE_COLOURS[row["tone"]]


def svg(dot: str) -> bytes:
    """A graph as SVG. Raises SurroundingsError."""
    program = shutil.which("dot")
    if program is None:
        raise SurroundingsError(
            "expected Graphviz's program dot, which is not installed; "
            "install it (Debian: apt install graphviz), or take the text of --dot to where it is"
        )
    try:
        done = subprocess.run(
            [program, "-Tsvg"],
            input=dot.encode("utf-8"),
            capture_output=True,
            timeout=LONGEST,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SurroundingsError(f"Graphviz's program {program} did not draw the graph: {error}") from None
    if done.returncode:
        message = done.stderr.decode("utf-8", "replace").strip()
        raise SurroundingsError(f"Graphviz's program {program} refused the graph: {message[:500]}")
    return done.stdout


MOST_LINES = 400
"""The most lines of a tree: an element from which several were made appears below each of them."""


def origin(answer: Row) -> Iterator[str]:
    """The lines on what an element was made from, each below what was made from it."""
    rows = {row["id"]: row for row in answer["elements"]}
    below = {key: row["from"] for key, row in rows.items()}
    yield from _tree(answer, rows, below, "nothing is known of where it came from")


def uses(answer: Row) -> Iterator[str]:
    """The lines on what was made from an element, each below its source, and the users of these elements."""
    rows = {row["id"]: row for row in answer["elements"]}
    below: dict[str, list[str]] = {key: [] for key in rows}
    for key, row in rows.items():
        for before in row["from"]:
            below.setdefault(before, []).append(key)
    yield from _tree(answer, rows, below, "")


def _tree(answer: Row, rows: dict[str, Row], below: dict[str, list[str]], nothing: str) -> Iterator[str]:
    first = answer["elements"][0]["id"]
    seen, ahead, lines = set[str](), [(first, 0)], 0
    while ahead and lines < MOST_LINES:
        key, depth = ahead.pop()
        lines += 1
        if key not in rows:
            yield f"{'  ' * depth}{key} (not shown: see --limit)"
        elif key in seen:
            yield f"{'  ' * depth}{_named(rows[key])} (see above)"
        else:
            seen.add(key)
            came = _came(rows[key]) or ("" if below[key] else nothing)
            yield f"{'  ' * depth}{_named(rows[key])}{f': {came}' if came else ''}"
            yield from (f"{'  ' * depth}    {line}" for line in _users(rows[key]))
            ahead += [(other, depth + 1) for other in reversed(below[key])]
    if ahead or answer["more"]:
        yield "there is more: --limit N looks at N elements, and --json shows all of these"


def _named(row: Row) -> str:
    if row["name"] is None:
        return f"{row['id']} ({clean(row['stands'])})"
    stands = f" ({row['stands']})" if row["stands"] != "current" else ""
    title = f" · {clean(row['title'])}" if row.get("title") else ""
    return f"{row['id']} {clean(row['name'])}{title}{stands}"


def _came(row: Row) -> str:
    """The step that made an element, and where it came from outside."""
    origin = row["origin"] or {}
    made = ""
    if origin.get("run"):
        step = f"step {origin['step']} of " if origin["step"] else ""
        made = f"made by {step}{row.get('run_of') or 'a run that is forgotten'} (run {origin['run']})"
    if origin.get("endorsed"):
        made = f"endorsed: {origin['endorsed']}"
    outside = f"from outside: {row['outside']}" if row["outside"] else ""
    return clean(", ".join(filter(None, (made, outside, moment_in_zone(row["added"])))))


def _users(row: Row) -> Iterator[str]:
    """The inputs and conditions that used an element, the runs that consulted it, and where it was sent."""
    users = set[int]()
    for use in row.get("used_by", ()):
        place = f"transition {use['transition']}" if "transition" in use else f"step {use['step']}"
        in_run = f", run {use['run']}" if use["run"] else ""
        users.add(use["run"])
        yield clean(f"used by {place} of {use['definition']}{in_run}")
    for step, target in sorted({(call["step"], call["target"]) for call in row.get("given_to", ())}):
        yield clean(f"given to {target}, step {step}, which is under way")
    for run in row.get("consulted_by", ()):
        if run["run"] not in users:
            of = f" of {run['run_of']}" if run["run_of"] else ""
            yield clean(f"consulted by run {run['run']}{of}")
    for sent in row.get("sent_to", ()):
        in_run = f" by run {sent['run']}" if sent["run"] else ""
        yield clean(f"sent to agent {sent['agent']}{in_run}")

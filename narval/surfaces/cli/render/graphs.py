"""Graphs of runs and definitions: as tables of their parts, or drawn by Graphviz's program `dot`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

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

"""Graphs of runs and definitions as tables: the parts in the order of flow, with what each leads to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from narval.surfaces.cli.render.tables import Column, table

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

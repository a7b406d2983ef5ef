"""The provenance of an element as a graph, in the form in which runs are drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any


def provenance(element: Mapping[str, Any]) -> dict[str, Any]:
    """The parts and arcs of what an element was made from, and of what was made from it (M24)."""
    inputs = (element["origin"] or {}).get("inputs") or ()
    rows = [*reversed(element["back"]), {**element, "from": inputs, "depth": 0}, *element["on"]]
    return _graph([{**row, "id": row["eid"]} for row in rows])


def trail(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The parts and arcs of the answer of `origin` or `uses`."""
    return _graph([{**row, "eid": row["id"]} for row in answer["elements"]])


def _graph(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ids = {row["id"] for row in rows}
    arcs = [
        {
            "id": f"{before}-{row['id']}",
            "from": str(before),
            "to": str(row["id"]),
            "text": "",
            "state": "plain",
        }
        for row in rows
        for before in row["from"]
        if before in ids
    ]
    return laid_out([_part(row) for row in rows], arcs)


def laid_out(
    parts: list[dict[str, Any]], arcs: list[dict[str, Any]], apart: float | None = None
) -> dict[str, Any]:
    """Parts and arcs with the digest of what decides their layout: the sizes of the texts, not the words."""
    sizes = [([len(line) for line in part["text"]], part["id"]) for part in parts]
    shape = repr((sizes, [(arc["from"], arc["to"]) for arc in arcs], apart))
    drawn = {"parts": parts, "arcs": arcs, "layout": hashlib.sha256(shape.encode()).hexdigest()}
    return drawn if apart is None else {**drawn, "apart": apart}


def _part(node: Mapping[str, Any]) -> dict[str, Any]:
    """An element of a provenance; the displayed one has depth 0."""
    origin = node["origin"] or {}
    name = node["name"] or "forgotten"
    made = (
        f"{node['run_of']} · {origin.get('step')}"
        if node.get("run_of")
        else origin.get("file") or origin.get("by") or ""
    )
    lines = [node["title"][:40]] if node.get("title") else []
    tone, state = ("active", "this one") if not node["depth"] else ("idle", f"{node['depth']} away")
    return {
        "id": str(node["eid"]),
        "kind": "element",
        "text": [f"{node['eid']} {name}"[:40], *lines, *([str(made)[:40]] if made else [])],
        "target": node.get("target"),
        "state": state,
        "tone": tone,
        "badge": "",
        "shape": "box",
        "frame": "",
    }

"""Graphs that are derived for a page, in the form in which runs are drawn.

One is the provenance of an element. The other says who sends to whom: each part is an agent with its counts,
each arc a pair.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from narval.ask.text import counted


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
    return laid_out([_element_part(row) for row in rows], arcs)


def laid_out(
    parts: list[dict[str, Any]], arcs: list[dict[str, Any]], apart: float | None = None
) -> dict[str, Any]:
    """Parts and arcs with the digest of what decides their layout: the sizes of the texts, not the words."""
    sizes = [([len(line) for line in part["text"]], part["id"]) for part in parts]
    shape = repr((sizes, [(arc["from"], arc["to"]) for arc in arcs], apart))
    drawn = {"parts": parts, "arcs": arcs, "layout": hashlib.sha256(shape.encode()).hexdigest()}
    return drawn if apart is None else {**drawn, "apart": apart}


def _element_part(node: Mapping[str, Any]) -> dict[str, Any]:
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


APART = 0.9
"""The inches between agents, and between the two arcs of a pair, which have a text each."""


def correspondence(
    pairs: Sequence[Mapping[str, Any]], agents: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The parts and arcs of the pairs of `message_counts`, with each agent's row in `agents`; removed agents
    have no part.
    """
    held = {row["name"]: row for row in agents}
    named = [pair for pair in pairs if pair["from"] and pair["to"]]
    waiting: Counter[str] = Counter()
    for pair in named:
        waiting[pair["to"]] += pair["open"]
    names = dict.fromkeys(name for pair in named for name in (pair["from"], pair["to"]))
    arcs = [
        {
            "id": f"{pair['from']}>{pair['to']}",
            "from": pair["from"],
            "to": pair["to"],
            "text": f"{pair['sent']:,}"
            + (f", {counted(pair['open'], 'waits', 'wait')}" if pair["open"] else ""),
            "state": "waiting" if pair["open"] else "plain",
        }
        for pair in named
    ]
    return laid_out([_agent_part(name, held.get(name, {}), waiting[name]) for name in names], arcs, APART)


def _agent_part(name: str, held: Mapping[str, Any], waiting: int) -> dict[str, Any]:
    """An agent, with the numbers of its elements and runs, and of the messages that wait for it."""
    numbers = [
        counted(held[key], thing)
        for key, thing in (("elements", "element"), ("runs", "run"))
        if held.get(key) is not None
    ]
    return {
        "id": name,
        "kind": "agent",
        "text": [name[:40], *([", ".join(numbers)] if numbers else [])],
        "target": None,
        "state": f"{counted(waiting, 'message')} waiting" if waiting else "nothing waits",
        "tone": "waiting" if waiting else "idle",
        "badge": f"{waiting:,}" if waiting else "",
        "shape": "box",
        "frame": "",
    }

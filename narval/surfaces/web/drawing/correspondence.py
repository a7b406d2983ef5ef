"""The drawing of who sends to whom: each part is an agent with its counts, each arc a pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from narval.ask.text import counted
from narval.surfaces.web.drawing.provenance import laid_out

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
            "text": f"{pair['sent']:,}" + (f", {_waiting(pair['open'])}" if pair["open"] else ""),
            "state": "waiting" if pair["open"] else "plain",
        }
        for pair in named
    ]
    return laid_out([_part(name, held.get(name, {}), waiting[name]) for name in names], arcs, APART)


def _waiting(count: int) -> str:
    return counted(count, "waits", "wait")


def _part(name: str, held: Mapping[str, Any], waiting: int) -> dict[str, Any]:
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

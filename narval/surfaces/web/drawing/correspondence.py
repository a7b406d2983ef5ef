"""The drawing of who sends to whom: each part is an agent, each arc a pair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from narval.ask.text import counted
from narval.surfaces.web.drawing.provenance import laid_out


def correspondence(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The parts and arcs of the pairs of `message_counts`; removed agents have no part."""
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
            "text": f"{pair['sent']:,}" + (f", {pair['open']:,} wait" if pair["open"] else ""),
            "state": "waiting" if pair["open"] else "plain",
        }
        for pair in named
    ]
    return laid_out([_part(name, waiting[name]) for name in names], arcs)


def _part(name: str, waiting: int) -> dict[str, Any]:
    """An agent, with the number of messages that wait for it."""
    return {
        "id": name,
        "kind": "agent",
        "text": [name[:40]],
        "target": None,
        "state": f"{counted(waiting, 'message')} waiting" if waiting else "nothing waits",
        "tone": "waiting" if waiting else "idle",
        "badge": f"{waiting:,}" if waiting else "",
        "shape": "box",
        "frame": "",
    }

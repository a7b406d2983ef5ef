"""The operation `part`: everything about one part of a run (M32)."""

from __future__ import annotations

from typing import Any

from narval.agent.agent import AgentState
from narval.agent.run import Run
from narval.ask.element_titles import title
from narval.ask.lookup import definition_and_state, find_run
from narval.ask.registry import Form, operation
from narval.ask.runs.calls import form, tries_and_waits
from narval.ask.runs.drawing import arc_rows, graph_of, part_row
from narval.ask.why import why
from narval.core.engines.engine import Retryable
from narval.core.engines.graph import GraphEdge, GraphNode
from narval.daemon.daemon import Daemon

_UNTOLD: Form = {"reason": None, "said": [], "waiting": []}

TRIES = 100
"""The most tries of the calls of a part in the answer, the newest."""


@operation("read")
async def part(daemon: Daemon, run: int, id: str) -> dict[str, Any]:
    """Everything about one part of a run, or about an arc: its drawn form, the reason for its state and what
    it waits for, in the form of `why`, and the tries of its calls with their inputs and results. For calls
    that no part of the graph makes, only the tries.
    """
    found = find_run(daemon, run)
    graph = graph_of(found.engine, *definition_and_state(daemon, found))
    nodes = {node.id: node for node in graph.parts if isinstance(node, GraphNode)}
    edges = [edge for edge in graph.parts if isinstance(edge, GraphEdge)]
    if id not in nodes:
        arc = next((row for row in arc_rows(edges) if row["id"] == id), None)
        if arc is not None:
            ends = [part_row(nodes[end]) for end in (arc["from"], arc["to"])]
            words = arc["told"]
            return {"run": run, "arc": arc, "ends": ends, "reason": words or None, "said": [words]}
    calls = [row for row in await tries_and_waits(daemon, found) if row["part"] == id]
    is_call_alone = id not in nodes and any(row["call"] for row in calls)
    last = {row["call"]: row for row in calls}  # the results of a call belong to its last try
    reasons = {**_UNTOLD, "state": found.status} if is_call_alone else await why(daemon, run, id)
    return {
        "run": run,
        "state": reasons["state"],
        "part": part_row(nodes[id]) if id in nodes else None,
        "reason": reasons["reason"],
        "said": reasons["said"],
        "waiting": reasons["waiting"],
        "arcs": [row for row in arc_rows(edges) if id in (row["from"], row["to"])],
        "calls": [
            _with_elements(daemon.agent, found, row, is_last=last[row["call"]] is row)
            for row in calls[-TRIES:]
        ],
        "left_out": max(0, len(calls) - TRIES),
        "retryable": not found.active
        and isinstance(found.engine, Retryable)
        and id in nodes
        and bool(nodes[id].target),
    }


def _with_elements(agent: AgentState, run: Run, row: Form, *, is_last: bool) -> Form:
    """A try with the names and ranks of its inputs (N16), and its stored results."""
    ranks = {eid: rank for rank, eids in enumerate(row.get("nearby", ())) for eid in eids}
    inputs = [
        {**slot, "elements": [_named(agent, eid) | {"rank": ranks.get(eid)} for eid in slot["elements"]]}
        for slot in row["inputs"]
    ]
    made = [
        eid for eid in agent.memory.contexts.of(run.eid) if _made_by(agent, eid) == (run.eid, row["call"])
    ]
    gave = dict.fromkeys([*row["gave"], *(made if row["call"] and is_last else [])])
    return {**form(row), "inputs": inputs, "gave": [_named(agent, eid) for eid in gave]}


def _made_by(agent: AgentState, eid: int) -> tuple[int, str] | None:
    element = agent.memory.element(eid)
    origin = element.origin if element is not None else None
    return (origin.run, origin.call) if origin is not None else None


def _named(agent: AgentState, eid: int) -> Form:
    element = agent.memory.element(eid)
    name = element.name if element is not None else None
    return {"eid": eid, "name": name, "title": title(agent, eid)}

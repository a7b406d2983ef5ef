"""Runs and definitions as graphs, for drawing (M30, M31, M80)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from narval.ask.lookup import definition_and_state, find_run, no_definition
from narval.ask.registry import operation
from narval.ask.runs import dot
from narval.core.engines.engine import Engine
from narval.core.engines.graph import Graph, GraphEdge, GraphNode, clipped, settled
from narval.core.engines.registry import engine_of, is_runnable, runnable
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon

LONGEST = 60
"""The most characters that are drawn of a line of text."""


@operation("read")
async def drawn(
    daemon: Daemon,
    run: int | None = None,
    definition: str | None = None,
    at: int | None = None,
    kind: str | None = None,
) -> dict[str, Any]:
    """The graph of a run, now or after line `at` of its history, or of a definition, by `kind` if several
    have its name: parts and arcs with their texts, states and places in the order of flow.

    `layout` is a digest of everything that determines the drawing's layout: it does not depend on the state.
    """
    return form(_graph(daemon, run, definition, at, kind))


@operation("read")
async def graph(
    daemon: Daemon, run: int | None = None, definition: str | None = None, at: int | None = None
) -> dict[str, Any]:
    """The same graph in the language of Graphviz."""
    return {"dot": dot.dot(_graph(daemon, run, definition, at))}


def _graph(
    daemon: Daemon, run: int | None, definition: str | None, at: int | None, kind: str | None = None
) -> Graph:
    if (run is None) == (definition is None):
        raise RequestError("expected the number of a run or the name of a definition, one of the two")
    if run is not None:
        found = find_run(daemon, run)
        return graph_of(found.engine, *definition_and_state(daemon, found, at))
    if at is not None:
        raise RequestError("expected a run with `at`: a definition has no history")
    library = daemon.agent.library
    named = library.get(kind, str(definition)) if kind else runnable(library, str(definition))
    if named is None or not is_runnable(named.kind):
        raise no_definition(daemon, str(definition))
    engine = engine_of(named.kind)
    return graph_of(engine, named, engine.state_type.blank(0, named))


def graph_of(engine: Engine, definition: Any, state: Any) -> Graph:
    """The graph of a run in a state; after its end no part is active."""
    graph = engine.graph(definition, state)
    return settled(graph) if state.over else graph


def form(graph: Graph) -> dict[str, Any]:
    """A graph as plain data, with the digest of its layout."""
    parts = [part_row(part) for part in graph.parts if isinstance(part, GraphNode)]
    arcs = arc_rows([part for part in graph.parts if isinstance(part, GraphEdge)])
    return {"name": graph.name, "parts": parts, "arcs": arcs, "layout": _layout(parts, arcs)}


def arc_ids(edges: list[GraphEdge]) -> Iterator[str]:
    """The ids of arcs: those of both ends, and a number if several lead from one part to another."""
    seen: Counter[str] = Counter()
    for edge in edges:
        ends = f"{edge.start}>{edge.end}"
        seen[ends] += 1
        yield ends if seen[ends] == 1 else f"{ends}#{seen[ends]}"


def arc_rows(edges: list[GraphEdge]) -> list[dict[str, Any]]:
    """The arcs in the form of `drawn`."""
    return [
        {
            "id": id,
            "from": edge.start,
            "to": edge.end,
            "text": clipped(edge.label or "", LONGEST),
            "state": edge.kind,
            "badge": edge.badge,
            "told": edge.tooltip,
        }
        for id, edge in zip(arc_ids(edges), edges, strict=True)
    ]


def part_row(node: GraphNode) -> dict[str, Any]:
    """A part in the form of `drawn`."""
    return {
        "id": node.id,
        "kind": node.kind,
        "text": [clipped(line, LONGEST) for line in node.label],
        "target": node.target,
        "state": node.status,
        "tone": node.tone,
        "badge": clipped(node.badge, LONGEST),
        "shape": node.shape,
        "frame": node.frame,
        "told": node.tooltip,
    }


_PLACED = ("id", "text", "shape", "frame")
_LED = ("from", "to", "text")


def _layout(parts: list[dict[str, Any]], arcs: list[dict[str, Any]]) -> str:
    """The digest of everything that a layout is made from, without the states of parts."""
    fixed = [[part[key] for key in _PLACED] for part in parts], [[arc[key] for key in _LED] for arc in arcs]
    return sha256(msgspec.json.encode(fixed)).hexdigest()[:32]

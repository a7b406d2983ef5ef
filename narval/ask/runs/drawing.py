"""Runs and definitions as graphs: as plain data for drawing, and in the language of Graphviz."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any

import msgspec

from narval.ask.lookup import definition_and_state, find_run, no_definition
from narval.ask.registry import operation
from narval.ask.text import clean_lines, printable, shortened
from narval.core.engines.engine import Engine
from narval.core.engines.graph import Graph, GraphEdge, GraphNode, Tone, clipped, settled
from narval.core.engines.registry import engine_of, is_runnable, runnable
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon

LONGEST_LINE = 60
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
    return {"dot": dot(_graph(daemon, run, definition, at))}


def _graph(
    daemon: Daemon, run: int | None, definition: str | None, at: int | None, kind: str | None = None
) -> Graph:
    if (run is None) == (definition is None):
        raise RequestError("expected the number of a run or the name of a definition, one of the two")
    if run is not None:
        the_run = find_run(daemon, run)
        return graph_of(the_run.engine, *definition_and_state(daemon, the_run, at))
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
            "text": clipped(edge.label or "", LONGEST_LINE),
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
        "text": [clipped(line, LONGEST_LINE) for line in node.label],
        "target": node.target,
        "state": node.status,
        "tone": node.tone,
        "badge": clipped(node.badge, LONGEST_LINE),
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


_FILLS: Mapping[Tone, str] = {
    "waiting": "#d6e6f7", "active": "#ffe08a", "done": "#c9e9c3", "failed": "#f5b7b1",
    "cancelled": "#e6e6e6", "idle": "#ffffff",
}  # fmt: skip
"""The colour of a node, by the phase of its state."""

_TOKEN_FILLS = {
    "active": "#ffe08a", "delayed": "#d6e6f7", "complete": "#c9e9c3", "discarded": "#f5b7b1",
    "skipped": "#e6e6e6", "cancelled": "#e6e6e6", "backtracked": "#b9c7f2",
    "failed": "#f0a860", "held": "#f0a860",
}  # fmt: skip
"""The colour of a token, and of a node that shows the state of its tokens."""

_SHAPES = {
    "box": "shape=box",
    "final": "shape=box, peripheries=2",
    "bar": "shape=box, height=0.2, fontsize=9",
    "tokens": 'shape=box, style="filled,rounded"',
    "waiting": 'shape=box, style="filled,rounded,dashed"',
}
_WITH_TOKENS = ("tokens", "waiting")
"""The shapes of nodes with a table of tokens in their label."""

_EDGES = {
    "plain": "",
    "error": 'style=dashed, label="on error"',
    "followed": "style=bold",
    "success": "style=solid",
    "failure": "style=dashed",
    "idle": 'color="#555555", penwidth=1',
    "waiting": 'color="#d49a00", penwidth=2.5',
    "turning": 'color="#f6e27a", penwidth=2.5',
    "taken": 'color="#4f9a45", penwidth=2',
    "undone": 'color="#5a6fc0", penwidth=2',
}
_WHITE = "#ffffff"
_COLUMNS = 11
"""The columns of the table of tokens, which its other rows span."""


def dot(graph: Graph) -> str:
    """The graph as text for Graphviz."""
    lines = [
        f"digraph {_quoted(graph.name)} {{",
        '  graph [rankdir=TB, fontname="sans-serif", nodesep=0.35, ranksep=0.35];',
        '  node [fontname="sans-serif", fontsize=11, style="filled,rounded", color="#555555"];',
        '  edge [fontname="sans-serif", fontsize=9, color="#555555", arrowsize=0.7];',
    ]
    framed: dict[str, list[GraphNode]] = {}
    for part in graph.parts:
        if isinstance(part, GraphNode):
            framed.setdefault(part.frame, []).append(part)
        else:
            lines += [*_nodes(framed), _edge(part)]
            framed = {}
    return "\n".join([*lines, *_nodes(framed), "}", ""])


def _nodes(framed: dict[str, list[GraphNode]]) -> Iterator[str]:
    for frame, nodes in framed.items():
        if not frame:
            yield from map(_node, nodes)
            continue
        yield f"  subgraph {_quoted(f'cluster_{frame}')} {{"
        yield f'    label={_quoted(frame)}; fontsize=9; color="#aaaaaa"; fontname="sans-serif";'
        yield from (f"  {_node(node)}" for node in nodes)
        yield "  }"


def _node(node: GraphNode) -> str:
    fill = _FILLS[node.tone]
    if node.shape in _WITH_TOKENS:
        label, fill = _table(node), _TOKEN_FILLS.get(node.status, fill)
    else:
        word = node.status if node.tone != "idle" and node.shape != "bar" else ""
        stands = " ".join(filter(None, (word, node.badge)))
        label = _quoted(clean_lines("\n".join(filter(None, (*node.label, stands)))))
    tooltip = f", tooltip={_quoted(clean_lines(node.tooltip))}" if node.tooltip else ""
    return f'  {_quoted(node.id)} [{_SHAPES[node.shape]}, label={label}, fillcolor="{fill}"{tooltip}];'


def _table(node: GraphNode) -> str:
    """An HTML label: the name, the other lines, and the tokens, each in its colour."""
    name, *others = (*node.label, node.badge) if node.badge else node.label
    rows = [f"<B>{_text(name)}</B>", *map(_text, others)]
    lines = "".join(f'<TR><TD COLSPAN="{_COLUMNS}">{row}</TD></TR>' for row in rows)
    cells = f"<TD>{node.more} more</TD>" if node.more else ""
    for mark in node.marks:
        fill = _TOKEN_FILLS.get(mark.status, _WHITE)
        cells += f'<TD BORDER="1" STYLE="ROUNDED" COLOR="#555555" BGCOLOR="{fill}">{_text(mark.label)}</TD>'
    tokens = f"<TR>{cells}</TR>" if cells else ""
    return f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="2">{lines}{tokens}</TABLE>>'


def _edge(edge: GraphEdge) -> str:
    badge = f"({edge.badge})" if edge.badge else None
    text = " ".join(filter(None, (edge.label, badge))) if badge else edge.label
    label = f"label={_quoted(shortened(text, LONGEST_LINE))}" if text is not None else ""
    named = [
        f"{name}={_quoted(clean_lines(edge.tooltip))}" for name in ("tooltip", "labeltooltip") if edge.tooltip
    ]
    attributes = ", ".join(filter(None, [label, _EDGES[edge.kind], *named]))
    suffix = f" [{attributes}]" if attributes else ""
    return f"  {_quoted(edge.start)} -> {_quoted(edge.end)}{suffix};"


def _text(text: str) -> str:
    """A text within an HTML label."""
    return escape(shortened(text, LONGEST_LINE), quote=True)


def _quoted(text: str) -> str:
    """A quoted string, with control characters visible, since the text may be written to a terminal."""
    visible = "\n".join(map(printable, text.split("\n")))
    escaped = visible.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

"""A run's graph in the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from narval.ask.text import clean_lines, printable, shortened
from narval.core.engines.graph import Graph, GraphEdge, GraphNode, Tone

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
_LONGEST = 60
"""The most characters drawn of a line in a table, and of the label of an edge."""
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
    label = f"label={_quoted(shortened(text, _LONGEST))}" if text is not None else ""
    named = [
        f"{name}={_quoted(clean_lines(edge.tooltip))}" for name in ("tooltip", "labeltooltip") if edge.tooltip
    ]
    attributes = ", ".join(filter(None, [label, _EDGES[edge.kind], *named]))
    suffix = f" [{attributes}]" if attributes else ""
    return f"  {_quoted(edge.start)} -> {_quoted(edge.end)}{suffix};"


def _text(text: str) -> str:
    """A text within an HTML label."""
    return escape(shortened(text, _LONGEST), quote=True)


def _quoted(text: str) -> str:
    """A quoted string, with control characters visible, since the text may be written to a terminal."""
    visible = "\n".join(map(printable, text.split("\n")))
    escaped = visible.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

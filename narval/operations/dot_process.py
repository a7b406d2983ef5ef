"""A process as a graph: its nodes with their tokens, its arcs with those that wait there (section 16)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from narval.engines.process.explain import parts
from narval.operations.text import shortened

COLOURS = {
    "todo": "#ffffff", "active": "#ffe08a", "delayed": "#d6e6f7", "complete": "#c9e9c3",
    "discarded": "#f5b7b1", "skipped": "#e6e6e6", "backtracked": "#b9c7f2",
}  # fmt: skip
"""Of a node and of a token, by its state; a token that turned round is in that of `TURNED`."""

TURNED = "#f6e27a"
SHOWN = 10
"""So many tokens of a node are drawn, the newest; the others are counted."""


def lines(definition: Any, state: Any) -> Iterator[str]:
    """The nodes, those that were imported in a frame of their own, and the arcs."""
    told = parts(definition, state)
    rows = {each["id"]: each for each in told["nodes"]}
    on_nodes = _by(told["tokens"], "node_id")
    frames: dict[tuple[str, ...], list[str]] = {}
    for node in definition.nodes.values():
        drawn = _node(node, rows[node.id]["state"], on_nodes.get(node.id, []))
        frames.setdefault(tuple(node.external), []).append(drawn)
    for external, nodes in frames.items():
        yield from _frame(":".join(external), nodes) if external else nodes
    on_arcs = _by(told["arc_tokens"], "index")
    for arc in definition.arcs:
        yield _arc(arc, on_arcs.get(arc.index, []))


def _by(rows: Iterable[dict[str, Any]], key: str) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for each in rows:
        found.setdefault(each[key], []).append(each)
    return found


def _frame(external: str, nodes: list[str]) -> Iterator[str]:
    yield f"  subgraph {quoted(f'cluster_{external}')} {{"
    yield f'    label={quoted(external)}; fontsize=9; color="#aaaaaa"; fontname="sans-serif";'
    yield from (f"  {each}" for each in nodes)
    yield "  }"


def _node(node: Any, state: str, tokens: list[dict[str, Any]]) -> str:
    """Its name and what it is, over its tokens, each in its colour; their story when one points at it."""
    about = [] if node.type == "node" else [node.type]
    about += [] if node.join == "or" else [f"{node.join} {node.join_text}".rstrip()]
    cells = "".join(_cell(each) for each in tokens[-SHOWN:])
    if len(tokens) > SHOWN:
        cells = f"<TD>{len(tokens) - SHOWN} more</TD>{cells}"
    second = f'<TR><TD COLSPAN="{SHOWN + 1}">{_text(", ".join(about))}</TD></TR>' if about else ""
    third = f"<TR>{cells}</TR>" if cells else ""
    mark = "▸ " if node.is_start else ""
    label = (
        f'<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="2"><TR><TD COLSPAN="{SHOWN + 1}">'
        f"<B>{_text(mark + node.name)}</B></TD></TR>{second}{third}</TABLE>>"
    )
    story = "\n".join([f"{node.id}: {state}", *(_story(each) for each in tokens[-SHOWN:])])
    style = "filled,rounded,dashed" if node.type == "wait" else "filled,rounded"
    return (
        f"  {quoted(node.id)} [shape=box, style={quoted(style)}, label={label}, "
        f"fillcolor={quoted(COLOURS.get(state, '#ffffff'))}, tooltip={quoted(story)}];"
    )


def _cell(token: dict[str, Any]) -> str:
    colour = COLOURS.get(token["state"], "#ffffff")
    return f'<TD BORDER="1" STYLE="ROUNDED" COLOR="#555555" BGCOLOR="{colour}">{token["id"]}</TD>'


def _story(token: dict[str, Any]) -> str:
    words = [f"token {token['id']}", token["state"]]
    words += [] if token["execution_type"] == "Forward" else [token["execution_type"]]
    return ", ".join([*words, *token["sets"]])


def _arc(arc: Any, tokens: list[dict[str, Any]]) -> str:
    """In the colour of the last token that took it; with the number of those that wait at its end."""
    waiting = [each for each in tokens if not each["complete"]]
    label = arc.name + f" ({len(waiting)} waiting)" * bool(waiting)
    colour, width = "#555555", "1"
    if waiting:
        turned = waiting[-1]["execution_type"].startswith("UTurn")
        colour, width = TURNED if turned else "#d49a00", "2.5"
    elif tokens:
        gone_back = tokens[-1]["execution_type"] != "Forward"
        colour, width = "#5a6fc0" if gone_back else "#4f9a45", "2"
    story = f"{arc.start.id} to {arc.end.id}: " + (
        ", ".join(f"{each['id']} ({each['execution_type']})" for each in tokens[-SHOWN:]) or "no token yet"
    )
    return (
        f"  {quoted(arc.start.id)} -> {quoted(arc.end.id)} [label={quoted(shortened(label.strip(), 60))}, "
        f'color="{colour}", penwidth={width}, tooltip={quoted(story)}, labeltooltip={quoted(story)}];'
    )


def _text(text: str) -> str:
    """A text within a label of HTML."""
    return escape(shortened(text, 60), quote=True).replace("\n", " ")


def quoted(text: str) -> str:
    """A text in the language of Graphviz."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'

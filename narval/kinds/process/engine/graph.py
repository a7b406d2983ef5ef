"""A process as a graph: its nodes with their tokens, its arcs with waiting tokens (section 16)."""

from __future__ import annotations

from narval.core.engines.graph import EdgeKind, Graph, GraphEdge, GraphNode, TokenMark, Tone
from narval.kinds.process.engine.explain import sets_of, state_of, word_of
from narval.kinds.process.engine.state import ArcToken, NodeToken, ProcessState
from narval.kinds.process.language.definition import Arc, Node, Process

SHOWN = 10
"""The most tokens shown at a node or an arc, the newest ones; the others are counted."""

NODE_TONES: dict[str, Tone] = {
    "active": "active", "delayed": "waiting", "complete": "done", "failed": "failed", "held": "failed",
    "discarded": "cancelled", "skipped": "cancelled", "cancelled": "cancelled", "backtracked": "cancelled",
}  # fmt: skip
"""The tone of each state of a node; any other state is idle."""


def graph(definition: Process, state: ProcessState) -> Graph:
    """The nodes and the arcs; nodes that were imported are framed."""
    standing: dict[str, list[NodeToken]] = {}
    for token in state.nodes.values():
        standing.setdefault(token.node, []).append(token)
    on_arcs: dict[int, list[ArcToken]] = {}
    for arc_token in state.arcs.values():
        on_arcs.setdefault(arc_token.arc, []).append(arc_token)
    nodes = [_node(node, state, standing.get(node.id, [])) for node in definition.nodes.values()]
    edges = [_edge(arc, on_arcs.get(arc.index, [])) for arc in definition.arcs]
    return Graph(definition.full_name, (*nodes, *edges))


def _node(node: Node, state: ProcessState, tokens: list[NodeToken]) -> GraphNode:
    """A node with its name, type, join and tokens; the tooltip has the state of each token."""
    about = [] if node.type == "node" else [node.called]
    about += [] if node.join == "or" else [f"{node.join} {node.join_text}".rstrip()]
    visible, status = tokens[-SHOWN:], state_of(state, node.id)
    return GraphNode(
        node.id,
        (f"{'▸ ' * node.is_start}{node.name}", *([", ".join(about)] if about else [])),
        status,
        "waiting" if node.type == "wait" else "tokens",
        tuple(TokenMark(str(token.id), word_of(state, token)) for token in visible),
        len(tokens) - len(visible),
        "\n".join([f"{node.id}: {status}", *(_token_line(state, token) for token in visible)]),
        ":".join(node.external),
        kind=node.type,
        tone=_tone(state, node, status),
        target=node.target[1] if node.target is not None else "",
        badge=f"×{len(tokens)}" if len(tokens) > 1 else "",
    )


def _tone(state: ProcessState, node: Node, status: str) -> Tone:
    """The tone of a node. An active node without a call or queued code waits, for memory or to be
    completed.
    """
    standing = (state.nodes[token] for token in state.standing.get(node.id, ()))
    works = any(token.queued or (token.call and not token.wake) for token in standing)
    return "waiting" if status == "active" and not works else NODE_TONES.get(status, "idle")


def _token_line(state: ProcessState, token: NodeToken) -> str:
    words = [f"token {token.id}", word_of(state, token)]
    words += [] if token.execution_type == "Forward" else [token.execution_type]
    return ", ".join([*words, *sets_of(state, token)])


def _edge(arc: Arc, tokens: list[ArcToken]) -> GraphEdge:
    """The arc, with the number of tokens that wait at its end."""
    waiting = sum(not token.complete for token in tokens)
    badge = f"{waiting} waiting" if waiting else ""
    newest = ", ".join(f"{token.id} ({token.execution_type})" for token in tokens[-SHOWN:])
    tooltip = f"{arc.start.id} to {arc.end.id}: {newest or 'no token yet'}"
    return GraphEdge(arc.start.id, arc.end.id, _kind(tokens), arc.name, tooltip, badge)


def _kind(tokens: list[ArcToken]) -> EdgeKind:
    """The kind of an arc, from its last waiting token, else from its last token."""
    waiting = [token for token in tokens if not token.complete]
    if waiting:
        return "turning" if waiting[-1].execution_type.startswith("UTurn") else "waiting"
    if tokens:
        return "taken" if tokens[-1].execution_type == "Forward" else "undone"
    return "idle"

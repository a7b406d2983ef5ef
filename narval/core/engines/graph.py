"""A run as a graph: plain nodes and edges with their states, for surfaces to draw."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

NodeShape = Literal["box", "final", "bar", "tokens", "waiting"]
"""A box; a box with a double border; a flat bar; a node with its tokens; the same for a waiting node."""

EdgeKind = Literal[
    "plain", "error", "followed", "success", "failure", "idle", "waiting", "turning", "taken", "undone"
]
"""The type of an edge, or its result."""

Tone = Literal["waiting", "active", "done", "failed", "cancelled", "idle"]
"""The categories of states that all kinds share, by which a part is drawn."""


class TokenMark(msgspec.Struct, frozen=True, gc=False):
    """A token on a node."""

    label: str
    status: str


class GraphNode(msgspec.Struct, frozen=True, gc=False):
    """A part of a run."""

    id: str
    """The name of the part, as accepted by `explain`."""
    label: tuple[str, ...]
    """Lines of the definition's text, its name first: they stay the same while a run is active."""
    status: str
    """Its state, in the word of its kind."""
    shape: NodeShape = "box"
    """The shape in which it is drawn."""
    marks: tuple[TokenMark, ...] = ()
    """Its newest tokens, oldest first."""
    more: int = 0
    """The number of its other tokens."""
    tooltip: str = ""
    """More details, shown on demand."""
    frame: str = ""
    """The name of a frame around the nodes that were imported together."""
    kind: str = "part"
    """The sort of part."""
    tone: Tone = "idle"
    """The category of its state, which sets its colour."""
    target: str = ""
    """The definition it calls."""
    badge: str = ""
    """The text that changes while the run is active."""


class GraphEdge(msgspec.Struct, frozen=True, gc=False):
    """An edge from one node to another; `badge` is the part of its text that changes."""

    start: str
    end: str
    kind: EdgeKind = "plain"
    label: str | None = None
    tooltip: str = ""
    badge: str = ""


class Graph(msgspec.Struct, frozen=True):
    """The nodes and edges of a run, in drawing order."""

    name: str
    parts: tuple[GraphNode | GraphEdge, ...]


GIVEN_UP = "given up"
"""The word for a part that was active, or waiting, when its run ended."""


def settled(graph: Graph) -> Graph:
    """The graph of an ended run: none of its parts is active or waiting (M31)."""
    return Graph(graph.name, tuple(map(_settled, graph.parts)))


def _settled(part: GraphNode | GraphEdge) -> GraphNode | GraphEdge:
    if isinstance(part, GraphEdge):
        return replace(part, kind="idle", badge="") if part.kind in ("waiting", "turning") else part
    if part.tone not in ("active", "waiting"):
        return part
    marks = tuple(
        replace(mark, status="cancelled") if mark.status in ("active", "delayed") else mark
        for mark in part.marks
    )
    return replace(part, status=GIVEN_UP, tone="cancelled", marks=marks)


def clipped(text: str, most: int) -> str:
    """A text on one line, of at most `most` characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"

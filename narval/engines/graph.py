"""A run as a graph: plain nodes and edges with their states, for surfaces to draw."""

from __future__ import annotations

from typing import Literal

import msgspec

NodeShape = Literal["box", "final", "bar", "tokens", "waiting"]
"""A box; one with a double border; a flat one; one that shows its tokens; the same for a node that waits."""

EdgeKind = Literal[
    "plain", "on error", "followed", "success", "failure", "idle", "waiting", "turning", "taken", "undone"
]
"""The sort of an edge, or what became of it."""


class TokenMark(msgspec.Struct, frozen=True):
    """A token on a node."""

    label: str
    status: str


class GraphNode(msgspec.Struct, frozen=True):
    """A part of a run: `label` is lines of text, the first of them its name.

    `marks` are its newest tokens, oldest first, and `more` counts the others; `frame` names a frame around
    the nodes that were imported together.
    """

    id: str
    label: tuple[str, ...]
    status: str
    shape: NodeShape = "box"
    marks: tuple[TokenMark, ...] = ()
    more: int = 0
    tooltip: str = ""
    frame: str = ""


class GraphEdge(msgspec.Struct, frozen=True):
    """A way from one node to another."""

    start: str
    end: str
    kind: EdgeKind = "plain"
    label: str | None = None
    tooltip: str = ""


class Graph(msgspec.Struct, frozen=True):
    """The nodes and edges of a run, in the order in which they are drawn."""

    name: str
    parts: tuple[GraphNode | GraphEdge, ...]


def clipped(text: str, most: int) -> str:
    """A text on one line, of so many characters at most."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"

"""The text of a graph for Graphviz, which is written to a terminal too."""

from __future__ import annotations

from typing import get_args

import pytest

from narval.ask.runs.drawing import dot
from narval.ask.text import BIDIRECTIONAL
from narval.core.engines.graph import Graph, GraphEdge, GraphNode, NodeShape, TokenMark

HARMFUL = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), *BIDIRECTIONAL) if chr(code) != "\n"]


@pytest.mark.parametrize("shape", get_args(NodeShape))
def test_no_control_character_of_any_text_is_in_it(shape: NodeShape) -> None:
    text = "a" + "".join(HARMFUL) + '\nb"\\<&'
    node = GraphNode(
        text, (text, text), text, shape, (TokenMark(text, text),), 2, text, text, text, "failed", text, text
    )
    edge = GraphEdge(text, text, "plain", text, text, text)
    drawn = dot(Graph(text, (node, edge)))
    assert not [character for character in HARMFUL if character in drawn]
    assert drawn.count("\\\\x1b") >= 8, "they are visible, in the name of the graph and in all others"
    edge_line = next(line.strip() for line in drawn.splitlines() if " -> " in line)
    name = edge_line.partition(" -> ")[0]
    assert any(line.strip().startswith(f"{name} [") for line in drawn.splitlines()), "both name it alike"

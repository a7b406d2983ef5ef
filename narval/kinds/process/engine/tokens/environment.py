"""Attributes: names and texts in layered environments (section 8).

Values are stored as text, as `attribute_types` writes them. Only changes write them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from narval.kinds.process.engine.state import ArcToken, NodeToken, ProcessState
from narval.kinds.process.language.attribute_types import to_text


def full(state: ProcessState, token: NodeToken) -> dict[str, str]:
    """The attributes of a token, layered over those of its process."""
    return {**state.environment, **token.environment}


def sources(state: ProcessState, token: NodeToken) -> list[int]:
    """The node tokens whose attributes a token has copied, in order; later ones won.

    The reverse of a token copies from the parents of that token.
    """
    like = token if token.reverses is None else state.nodes[token.reverses]
    return [_source(state, like, state.arcs[number]) for number in like.parents]


def _source(state: ProcessState, token: NodeToken, arc: ArcToken) -> int:
    """The node token behind an arc token. One that turned round at a dead end stands for the token that it
    reverses.
    """
    turned = arc.execution_type == "UTurn" and state.nodes[arc.parent].node == token.node
    return state.arcs[arc.reverses].parent if turned and arc.reverses is not None else arc.parent


def texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    """Values as they are stored; None removes one. Raises TypeError for a value that has no text."""
    return {name: to_text(value) for name, value in values.items()}


def spread(values: Mapping[str, Sequence[Any]], count: int) -> dict[int, dict[str, str]]:
    """Lists of values as attributes of members, from index 0 on; values beyond `count` are left out."""
    members: dict[int, dict[str, str]] = {}
    for name, listed in values.items():
        for index, value in enumerate(listed[:count]):
            text = to_text(value)
            if text is not None:
                members.setdefault(index, {})[name] = text
    return members

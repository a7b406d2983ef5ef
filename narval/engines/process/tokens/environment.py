"""Attributes: names and texts, and environments that lie one over another (section 8).

Values are stored as text, as `definitions/converters.py` writes them. Nothing here writes: a change does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from narval.definitions.process.attribute_types import to_text
from narval.engines.process.state import ProcessState
from narval.engines.process.tokens.token import NodeToken

written = to_text
"""The text that a value is stored as; None stays None. Raises TypeError for an unknown type."""


class Environment(Mapping[str, str]):
    """Attributes as they are read: of the layers, the first that has a name gives its value."""

    __slots__ = ("_layers",)

    def __init__(self, *layers: Mapping[str, str]) -> None:
        self._layers = layers

    def __getitem__(self, name: str) -> str:
        for layer in self._layers:
            if name in layer:
                return layer[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for layer in reversed(self._layers) for name in layer))

    def __len__(self) -> int:
        return len({name for layer in self._layers for name in layer})


def full(state: ProcessState, token: NodeToken) -> Environment:
    """The attributes of a token, over those of its process."""
    return Environment(token.environment, state.environment)


def of_member(state: ProcessState, token_set: int, index: int) -> Environment:
    """The attributes of one member of a set; of a place that is none, there are none."""
    return Environment(state.sets[token_set].members.get(index, {}))


def texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    """Values as they are stored, None removing one. Raises TypeError for what has no text."""
    return {name: to_text(value) for name, value in values.items()}


def spread(values: Mapping[str, Sequence[Any]], count: int) -> dict[int, dict[str, str]]:
    """Lists of values as attributes of members, from index 0 on; what is too many is left out."""
    members: dict[int, dict[str, str]] = {}
    for name, listed in values.items():
        for index, value in enumerate(listed[:count]):
            text = to_text(value)
            if text is not None:
                members.setdefault(index, {})[name] = text
    return members

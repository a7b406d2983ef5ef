"""Saying something to a run by name: what may be said, and what the run answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lxml import etree

from narval.engines.commands import Answer
from narval.engines.events import OutputElement, Plain, Signalled
from narval.errors import RequestError
from narval.runtime.agent.turn import Turn

OWN = frozenset({"name", "run", "eid"})
"""The attributes that a signal's element has by itself."""


def attributes_of(arguments: Mapping[str, str]) -> dict[str, Plain]:
    """What is said besides the name, as attributes of the element it becomes. Raises RequestError."""
    root = etree.Element("signal")
    for key, value in arguments.items():
        if key in OWN:
            raise RequestError(f"a signal has an attribute {key} of its own; choose another name")
        try:
            if key.startswith(("{", "xml")):
                raise ValueError
            root.set(key, value)
        except ValueError:
            wanted = "the name and the text of an attribute, such as by=ann"
            raise RequestError(f"expected {wanted}, got {f'{key}={value}'!r:.80}") from None
    return dict(arguments)


def say(
    turn: Turn,
    run: int,
    name: str,
    elements: tuple[OutputElement, ...],
    arguments: dict[str, Plain],
) -> Iterator[Answer]:
    """Tell a run a signal; its answer, recorded with the turn."""
    signal = str(turn.agent.sequence + 1)
    turn.tell(run, Signalled(0, 0.0, signal, name, elements, arguments))
    for _, command in turn.outer:
        if isinstance(command, Answer) and command.signal == signal:
            yield command

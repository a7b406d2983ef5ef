"""Descriptions of actions: their inputs and outputs, and whether they act outside."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.action.definition import Action
from narval.core.definitions.action.needs import shown_resources
from narval.core.definitions.library import Library
from narval.core.definitions.telling.calls import takes, template
from narval.core.definitions.telling.sentence import Sentence, listed, quoted
from narval.core.trust.paths import SlotPath

_PLACES = {
    "thread": "It runs in a thread beside the others.",
    "worker": "It runs in a process of its own.",
    "inline": "It runs at once, and all else waits for it.",
    "async": "It runs in the daemon, and waits beside the others.",
    "source": "It runs on, and gives what comes as it comes.",
    "cluster": "It runs on the cluster.",
    "mcp": "It runs in its MCP server.",
}


def sentences(action: Action, library: Library) -> Iterator[Sentence]:
    """The sentences that describe an action."""
    what = f"the Python function {action.function}"
    if action.tool is not None:
        what = f"the tool {quoted(action.tool.name)} of the MCP server {action.group}"
    yield Sentence(f"It is {what}, called by other definitions.", action.line)
    for text, deeper in takes(action.prototype):
        yield Sentence(text, action.line, depth=deeper)
    yield from (Sentence(text, action.line) for text in _facts(action))


def _facts(action: Action) -> Iterator[str]:
    if action.model:
        yield f"It asks the language model that its input {quoted(action.model)} names."
    if action.pure:
        yield "It touches nothing outside, and gives the same for the same."
    elif action.outside:
        yield "What it does can be seen outside the home."
    else:
        yield "What it does cannot be seen outside the home."
    yield from _of_parts(action)
    if action.describe is not None:
        yield f"People who must agree to a call of it read {template(action.describe)}."
    if action.undo:
        yield f"What it did is undone by the action {action.undo}."
    yield _PLACES[action.where]
    if action.resources:
        yield f"It needs of the cluster: {shown_resources(action.resources)}."


def _of_parts(action: Action) -> Iterator[str]:
    """The sentences about what its author declares about parts."""
    prototype = action.prototype
    if action.says_where:
        yield f"Where it goes is said by {listed(map(_part, action.says_where))}."
    elif action.says_where is None and prototype.inputs:
        yield "Any part of what it takes may say where it goes."
    for keep in prototype.keeps:
        yield f"In {_part(keep.part)} it says what {listed(map(_part, keep.sources))} says, and nothing else."


def _part(part: SlotPath) -> str:
    return f"{quoted(part.path)} of {quoted(part.slot)}" if part.path else quoted(part.slot)

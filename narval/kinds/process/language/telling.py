"""Descriptions of processes: their nodes, what these wait for and do, and where their tokens go next."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.library import Library
from narval.core.definitions.telling.calls import call, forgotten, target_of
from narval.core.definitions.telling.patterns import presence
from narval.core.definitions.telling.sentence import Sentence, listed, names, quoted, verbatim
from narval.kinds.process.language.code import EVENTS
from narval.kinds.process.language.definition import JoinType, MemoryGuard, Node, Process
from narval.kinds.process.language.statements import Accept, Discard, Skip

_JOINS: dict[JoinType, str] = {
    "and": "It begins once a token has come on each way that leads to it.",
    "labelAnd": "It begins once a token has come on each way that leads to it and has the same name.",
    "first": "It begins with the first token that comes; those that come later are merged into it.",
    "tokenSet": "It begins once all of the set has come; a token of no set is an error.",
    "tokenSetOr": "It begins once all of the set has come; a token of no set begins it at once.",
    "joinlang": "It begins once what it requires has come.",
    "class": "It begins once the user's code says so.",
}
_TARGETS = ("target", "graphName", "agent")
"""The custom texts of a node that name what it calls."""


def sentences(process: Process, library: Library) -> Iterator[Sentence]:
    """The sentences that describe a process."""
    yield Sentence("It begins when a person or a program starts it.", process.line)
    if process.start_nodes:
        starts = names(node.name for node in process.start_nodes)
        yield Sentence(f"It begins with {starts}.", process.start_nodes[0].line)
    else:
        yield Sentence("It cannot begin: no node is its start.", process.line)
    yield from (Sentence(text, process.line) for text in forgotten(process.decay))
    for key, text in process.custom:
        yield Sentence(f"Of it is written: {key}, {quoted(text)}.", process.line)
    for external in process.externals:
        text = f"The nodes of {external.definition} are part of it, as {quoted(external.name)}."
        yield Sentence(text, external.line, external.column)
        for key, text in external.custom:
            yield Sentence(f"There {key} is {quoted(text)}.", external.line, external.column, 1)
    for listener in process.listeners:
        heard = listed(name for name, bit in EVENTS.items() if listener.mask >> bit & 1)
        yield Sentence(f"The code {quoted(listener.name)} hears of what happens: {heard}.", process.line)
    for node in _in_order(process):
        yield Sentence(f"{quoted(node.id)} {_does(node, library)}.", node.line)
        yield from (Sentence(text, node.line, depth=1) for text in _details(node))
        yield from _ways(node)
    yield Sentence("With the end of its last token the run has ended.", process.line)


def _in_order(process: Process) -> Iterator[Node]:
    """The nodes in the order they follow one another from the starts; unreachable ones last."""
    line = list(process.start_nodes)
    seen = {node.id for node in line}
    for node in line:
        yield node
        for arc in node.outs:
            if arc.end.id not in seen:
                seen.add(arc.end.id)
                line.append(arc.end)
    yield from (node for node in process.nodes.values() if node.id not in seen)


def _does(node: Node, library: Library) -> str:
    if node.target is not None:
        kind, target = node.target
        return call(kind, target, node.agent, target_of(kind, target, node.agent, library))
    does = {
        "node": "does nothing, and goes on at once",
        "wait": "waits" + ("" if node.conditions else " until it is completed from outside"),
        "script": "runs code that is written in it",
    }
    return does.get(node.type, f"runs the code of the node type {node.type}")


def _details(node: Node) -> Iterator[str]:
    join = _JOINS.get(node.join)
    if join is not None:
        yield join if not node.join_text else f"{join[:-1]}: {verbatim(node.join_text)}."
    elif node.join_text:
        yield f"It joins by {verbatim(node.join_text)}."
    if isinstance(node.guard, MemoryGuard):
        yield f"It does so if {presence(node.guard.condition)}; else {_otherwise(node.guard)}."
    elif node.guard is not None:
        yield f"First it is asked whether it may: {verbatim(node.guard_text)}."
    for condition in node.conditions:
        only = ", which no run has taken here before" if condition.use else ""
        yield f"It waits until {presence(condition.condition)}{only}."
    for key, text in node.custom:
        if node.target is None or key not in _TARGETS:
            yield f"Its {key} is {verbatim(text)}."
    if node.cancels_all:
        yield "With its end all other tokens are cancelled."
    elif node.cancels:
        yield f"With its end the tokens of {names(sorted(node.cancels))} are cancelled."


def _otherwise(guard: MemoryGuard) -> str:
    """The fate of a token if nothing in memory fits the guard."""
    match guard.otherwise:
        case Accept():
            return "it does so all the same"
        case Discard():
            return "the token ends there"
        case Skip(arc=arc):
            return f"it is passed over, and the token goes on{f' by {quoted(arc)}' if arc else ''}"
        case other:
            return f"it is asked again: {verbatim(repr(other))}"


def _ways(node: Node) -> Iterator[Sentence]:
    """The arcs that leave a node, grouped by name."""
    for name, arcs in node.outs_by_name.items():
        forward = [arc for arc in arcs if not arc.back]
        when = f"When it ends with {quoted(name)}," if name else "Then"
        if forward:
            goes = f"it goes on with {names(arc.end.id for arc in forward)}"
            yield Sentence(f"{when} {goes}.", forward[0].line, depth=1)
        for arc in arcs:
            if arc.back:
                goes = f"the process goes back to {quoted(arc.end.id)}, and what came since is undone"
                yield Sentence(f"{when} {goes}.", arc.line, depth=1)
    if not node.outs:
        yield Sentence("Its token ends there.", node.line, depth=1)

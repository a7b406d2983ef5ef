"""Warnings about processes that are allowed but may not be intended (section 16).

Names of predicates, functions, joins, listeners and nested processes are looked up when a run needs them, so
they may be defined later; here they are compared with the present library. The type of a node must exist when
the file is loaded: a node of a mistyped type would do nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Library
from narval.core.definitions.prototype import Prototype
from narval.core.definitions.reading.expressions import Predicate, predicates
from narval.core.definitions.reading.walks import reached
from narval.core.definitions.suggestions import closest
from narval.core.definitions.transform.definition import Transform
from narval.core.errors import Fault
from narval.kinds.process.language.code import BUILT_IN_DATE, Code
from narval.kinds.process.language.definition import MemoryGuard, Node, Process
from narval.kinds.process.language.properties import statements, within
from narval.kinds.process.language.rubric import results
from narval.kinds.process.language.statements import (
    DateValue,
    DelayUntil,
    If,
    NamedDate,
    RelativeDate,
    Result,
    Skip,
    Statement,
    StringValue,
)

_WORDS = {"predicate": "predicate", "date-function": "date function", "string-function": "string function"}

Named = Predicate | NamedDate | StringValue


def warnings(processes: Iterable[Process], library: Library) -> list[Fault]:
    """Warnings about processes of a library."""
    imported = _Imported(library)
    return [
        Fault(process.path, line, column, message, warning=True)
        for process in processes
        for message, line, column in _warnings(process, library, imported)
    ]


def names_asked(statement: Statement) -> Iterator[tuple[str, Named]]:
    """The names that a guard asks about, each with its kind: predicate, date function or string function."""
    while isinstance(statement, If):
        yield from (("predicate", name) for name in predicates(statement.condition))
        yield from names_asked(statement.then)
        statement = statement.otherwise
    yield from _names_in(statement)


def _names_in(result: Result) -> Iterator[tuple[str, Named]]:
    match result:
        case StringValue():
            yield "string-function", result
        case DelayUntil(RelativeDate(base=name)) | DateValue(RelativeDate(base=name)):
            yield "date-function", name
        case DelayUntil(NamedDate() as name) | DateValue(NamedDate() as name):
            yield "date-function", name


class _Imported:
    """The processes that others import, and the names of the arcs that leave copies of their nodes; and the
    names of the elements that actions and transforms make.
    """

    def __init__(self, library: Library) -> None:
        self.arcs: dict[tuple[str, str], set[str]] = {}
        for process in library.of(Process.kind).values():
            if isinstance(process, Process):
                for node in process.nodes.values():
                    if node.origin:
                        self.arcs.setdefault((node.origin, node.name), set()).update(node.outs_by_name)
        self.processes = {process for process, _ in self.arcs}
        prototypes = [
            prototype
            for kind in (Action.kind, Transform.kind)
            for one in library.of(kind).values()
            if isinstance(prototype := getattr(one, "prototype", None), Prototype)
        ]
        outputs = chain.from_iterable(prototype.outputs for prototype in prototypes)
        self.made = frozenset[str]().union(*(output.condition.names or () for output in outputs))


def _warnings(process: Process, library: Library, imported: _Imported) -> Iterator[tuple[str, int, int]]:
    if not process.start_nodes and process.full_name not in imported.processes:
        yield 'no node has isStart="true": this process cannot be started', process.line, 1
    for listening in process.listeners:
        if library.get("listener", listening.name) is None:
            hint = closest(listening.name, library.of("listener"))
            yield f"there is no listener {listening.name!r}{hint}", process.line, 1
    own = [node for node in process.nodes.values() if not node.external]  # the rest is checked elsewhere
    for node in own:
        yield from _of_node(process, node, library, imported)
    yield from _of_ways_back(process)


def _of_ways_back(process: Process) -> Iterator[tuple[str, int, int]]:
    """Warnings about arcs that lead back to a node that no token can have come from."""
    edges = [((arc.start.id,), (arc.end.id,)) for arc in process.arcs if not arc.back]
    for arc in process.arcs:
        if arc.back and not arc.start.external and arc.start.id not in reached((arc.end.id,), edges):
            led = f"no way leads from {arc.end.id!r} to {arc.start.id!r}"
            yield f"{led}, so no token can go back on this arc: its node fails instead", arc.line, 1


def _of_node(
    process: Process, node: Node, library: Library, imported: _Imported
) -> Iterator[tuple[str, int, int]]:
    where = f"node {node.name!r}"
    if node.join == "class" and library.get("join", node.join_text) is None:
        hint = closest(node.join_text, library.of("join"))
        yield f"{where}: there is no join {node.join_text!r}{hint}", node.line, 1
    if node.join_text and node.join not in ("joinlang", "class", "tokenSet", "tokenSetOr"):
        yield f"{where}: the join {node.join} needs no text, and ignores {node.join_text!r}", node.line, 1
    if node.type == "nested":
        yield from _nested(process, node, library)
    if node.target is not None and not node.agent:
        yield from _of_anybody(node, library, imported.made)
    for kind, name, line, column in chain(_names(node), _names_of_properties(node, library)):
        if library.get(kind, name) is None and (kind, name) != BUILT_IN_DATE:
            hint = closest(name, library.of(kind))
            yield f"there is no {_WORDS[kind]} {name!r}{hint}", line, column
    left = {*node.outs_by_name, *imported.arcs.get((process.full_name, node.name), ())}
    for skip in _skips(node):
        if skip.arc not in left and (skip.arc or left):
            label = f"arc {skip.arc!r}" if skip.arc else "arc without a name"
            hint = closest(skip.arc, filter(None, left))
            yield f"{where} has no {label} to skip to: the token ends here{hint}", skip.line, skip.column


def _of_anybody(node: Node, library: Library, made: frozenset[str]) -> Iterator[tuple[str, int, int]]:
    """Warnings about optional inputs that take an element of any other run if this run has made none. Inputs
    that name elements which nothing makes are for settings in memory, and are left out.
    """
    prototype = getattr(library.get(*node.target or ("", "")), "prototype", None)
    for slot in prototype.inputs if isinstance(prototype, Prototype) else ():
        names = slot.condition.names or frozenset()
        if slot.optional and not slot.list and not slot.condition.variables and names & made:
            takes = f"if nothing of this run fits the optional input {slot.id!r} ({slot.condition.text})"
            mend = "call the action in a recipe, whose step narrows the input by <match>"
            yield f"node {node.name!r}: {takes}, it takes one of any other run; {mend}", node.line, 1


def _nested(process: Process, node: Node, library: Library) -> Iterator[tuple[str, int, int]]:
    name = node.text_of("graphName")
    called = library.called(Process.kind, name, process.group)
    if not called:
        names = [process.name for process in library.of(Process.kind).values()]
        hint = closest(name, names)
        yield f"node {node.name!r}: there is no process {name!r}{hint}", node.line, 1
    elif len(called) > 1:
        listed = " and ".join(process.full_name for process in called)
        yield (
            f"node {node.name!r}: {listed} have this name; write the full name of the one you mean",
            node.line,
            1,
        )


def _names(node: Node) -> Iterator[tuple[str, str, int, int]]:
    """The names that the guard and the join of a node ask about, with their kinds and places."""
    statement = _statement(node)
    names = [] if statement is None else list(names_asked(statement))
    for requirement in chain.from_iterable(node.joinlang):
        if requirement.when is not None:
            asked = predicates(requirement.when)
            names += (("predicate", name) for name in asked if name.name != "first")
    return ((kind, name.name, name.line, name.column) for kind, name in names)


def _names_of_properties(node: Node, library: Library) -> Iterator[tuple[str, str, int, int]]:
    """The names that a node's properties in Rubric ask about, with their kinds and places."""
    code = library.get("node-type", node.type)
    if isinstance(code, Code) and code.evaluated:
        for key, statement in statements(code.properties, node.custom):
            place = node.places.get(key, (node.line, 1))
            for kind, name in names_asked(statement):
                yield kind, name.name, *within(place, node.text_of(key), name.column - 1)


def _skips(node: Node) -> Iterator[Skip]:
    statement = _statement(node)
    values = () if statement is None else results(statement)
    return (result for result in values if isinstance(result, Skip))


def _statement(node: Node) -> Statement | None:
    """The statement of a node's guard; for a guard that asks memory, the result if nothing fits."""
    return node.guard.otherwise if isinstance(node.guard, MemoryGuard) else node.guard

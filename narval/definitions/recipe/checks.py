"""Checks of recipes that no table can say: the graph, and how steps fit their targets (N13)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from narval.definitions.library import Definition
from narval.definitions.prototype import Input, Prototype
from narval.definitions.reading.xml import Place
from narval.definitions.recipe.definition import Step
from narval.errors import DefinitionError, Fault
from narval.memory.patterns.pattern import Condition


class Edge(NamedTuple):
    """A transition by ids: the steps that must be done, and those that start, each with its place."""

    id: str
    ins: tuple[str, ...]
    outs: tuple[tuple[str, Place], ...]


def check_graph(
    start: str | None, steps: Mapping[str, Place], edges: Iterable[Edge]
) -> Iterator[tuple[Place, str]]:
    """The cycles, and the steps that cannot be reached from the start, each with its place and a message."""
    edges = list(edges)
    yield from _cycles(steps, edges)
    if start is not None:
        yield from _unreachable(start, steps, edges)


def _unreachable(start: str, steps: Mapping[str, Place], edges: list[Edge]) -> Iterator[tuple[Place, str]]:
    reached = _reached(start, edges)
    into = {step: edge for edge in reversed(edges) for step, _ in edge.outs}
    for step, place in steps.items():
        if step in reached:
            continue
        why = "no transition leads to it"
        if step in into:
            missing = next(source for source in into[step].ins if source not in reached)
            why = f"transition {into[step].id!r} needs {missing!r}, which cannot be reached either"
        yield (
            place,
            f"step {step!r} cannot be reached from the start step {start!r}: {why}; link or remove it",
        )


def _reached(start: str, edges: list[Edge]) -> set[str]:
    """The steps that may start: a transition needs all the steps that it leaves."""
    missing = [set(edge.ins) for edge in edges]
    leaving: dict[str, list[int]] = {}
    for number, ins in enumerate(missing):
        for step in ins:
            leaving.setdefault(step, []).append(number)
    reached: set[str] = set()
    pending = [start, *(step for edge in edges if not edge.ins for step, _ in edge.outs)]
    while pending:
        step = pending.pop()
        if step in reached:
            continue
        reached.add(step)
        for number in leaving.get(step, ()):
            missing[number].discard(step)
            if not missing[number]:
                pending.extend(out for out, _ in edges[number].outs)
    return reached


def _cycles(steps: Mapping[str, Place], edges: list[Edge]) -> Iterator[tuple[Place, str]]:
    """Each link that leads back to a step on the way to it, found by walking in depth without recursion."""
    after: dict[str, list[tuple[str, Place]]] = {step: [] for step in steps}
    for edge in edges:
        for step in edge.ins:
            after.setdefault(step, []).extend(edge.outs)
    seen: set[str] = set()
    reported: set[Place] = set()
    for root in after:
        path = {} if root in seen else {root: iter(after[root])}
        seen.add(root)
        while path:
            step = next(reversed(path))
            successor, place = next(path[step], (None, (0, 0)))
            if successor is None:
                del path[step]
            elif successor in path and place not in reported:
                reported.add(place)
                yield place, _going_back(successor, list(path))
            elif successor not in seen:
                seen.add(successor)
                path[successor] = iter(after.get(successor, ()))


def _going_back(to: str, path: list[str]) -> str:
    circle = " → ".join([*path[path.index(to) :], to])
    return (
        f"a step runs once in a plan, but this leads back to {to!r} ({circle}); "
        'loop with restart="yes", a new start-plan, or a process definition'
    )


def check_step(step: Step, target: Definition, foreach: Place, path: str) -> list[Fault]:
    """The faults of a step that does not fit its target: forbidden overrides, a `foreach` without input."""
    prototype: Prototype | None = getattr(target, "prototype", None)
    if prototype is None:
        return [
            narrowing.fault(
                f"a {target.kind} has no inputs and outputs that a step could tighten; remove this"
            )
            for narrowing in (*step.inputs, *step.outputs)
        ]
    faults: list[Fault] = []
    try:
        prototype = step.prototype(prototype)
    except DefinitionError as error:
        faults.extend(error.faults)
    message = None if step.foreach is None else _misfit(step.foreach, prototype, target)
    return faults if message is None else [*faults, Fault(path, *foreach, message)]


def _misfit(foreach: Condition, prototype: Prototype, target: Definition) -> str | None:
    """The fault where the elements of `foreach` can go to no input, or to several; None if none is proved."""
    names = foreach.names
    if not any(_may_fit(names, given) for given in prototype.inputs):
        inputs = ", ".join(f"{given.id} ({' and '.join(given.match)})" for given in prototype.inputs)
        return f"what foreach selects fits no input of {target.full_name}; its inputs: {inputs or 'none'}"
    sure = [given.id for given in prototype.inputs if _surely_fits(names, given)]
    if len(sure) > 1:
        listed = " and ".join(map(repr, sure))
        return (
            f"what foreach selects fits the inputs {listed} of {target.full_name}; tighten one of them here"
        )
    return None


def _may_fit(names: frozenset[str] | None, given: Input) -> bool:
    wanted = given.condition.names
    return names is None or wanted is None or not names.isdisjoint(wanted)


def _surely_fits(names: frozenset[str] | None, given: Input) -> bool:
    """True if every element of these names fits: the input asks for the name, and for nothing else."""
    texts = [pattern.text.strip() for pattern in given.condition.patterns]
    return names is not None and all(text == "*" or names == {text} for text in texts)

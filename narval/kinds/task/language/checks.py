"""Warnings about tasks that are allowed but may not be intended (KA17, K46)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from narval.core.definitions.library import Library
from narval.core.definitions.reading.xml import Place
from narval.core.errors import Fault
from narval.core.kinds import ASKING
from narval.core.patterns.pattern import Condition
from narval.kinds.task.language.calls import routes_from
from narval.kinds.task.language.definition import (
    FORWARD,
    PREDEFINED,
    Perform,
    Script,
    TaskDefinition,
    TaskState,
    calls_in,
)


def warnings(tasks: Iterable[TaskDefinition], library: Library) -> list[Fault]:
    """Warnings about types and global events of a library."""
    tasks = list(tasks)
    compensators = {compensator.full_name for task in _all(library) for compensator in _named(library, task)}
    return [
        Fault(task.path, *place, f"{task.full_name}: {message}", warning=True)
        for task in tasks
        if not task.is_global
        for place, message in (*_doubtful(task), *_uncalled(task, compensators), *_unheard(task, library))
    ] + [
        Fault(task.path, rule.line, rule.column, f"{task.full_name}: {doubt.message}", warning=True)
        for task in tasks
        for rule in task.events
        if isinstance(rule.condition, Condition)
        for pattern in rule.condition.patterns
        for doubt in pattern.doubts
    ]


def _all(library: Library) -> Iterator[TaskDefinition]:
    return (task for task in library.of(TaskDefinition.kind).values() if isinstance(task, TaskDefinition))


def _named(library: Library, task: TaskDefinition) -> Iterable[TaskDefinition]:
    """The types that a type names as its compensator."""
    compensators = library.called(task.kind, task.compensated_by, task.group) if task.compensated_by else ()
    return (type for type in compensators if isinstance(type, TaskDefinition))


def _doubtful(task: TaskDefinition) -> Iterator[tuple[Place, str]]:
    for name, script in task.routes.items():
        is_forward = name == FORWARD or name not in PREDEFINED
        if is_forward and routes_from(script) and not _fewest_routes(script):
            first = next(calls_in(script))
            message = f"ON {name} may send the object nowhere: on some way through it there is no route"
            yield (first.line, first.column), f"{message}; add an else"
    for name, state in task.states.items():
        if task.is_terminal(name) and state.on_leaving:
            place = state.line, state.column
            yield place, f"{name} is never left, so its ON LEAVING never runs; remove it"
    if is_unattended(task) and not moves_on(task.states[task.initial]):
        way = f"it stays in {task.initial}, with no person and nothing that moves it"
        yield (
            (task.line, task.column),
            f"{way}; add TASK CODE, USERS or ROLES, or assert(…) to its ON ASSERT or to an ACTION",
        )


def _uncalled(task: TaskDefinition, compensators: set[str]) -> Iterator[tuple[Place, str]]:
    if task.invocation == "compensation" and not (task.compensates or task.full_name in compensators):
        yield (task.line, task.column), f"no type is COMPENSATED BY {task.name}, so it never runs"


def _unheard(task: TaskDefinition, library: Library) -> Iterator[tuple[Place, str]]:
    """Warnings about answers of the work in its TASK CODE that name no state in which the task may end."""
    work = task.worked_by(library.get)
    if work is None or work.kind != ASKING:
        return
    ends = task.ways_from(task.initial).ends
    for outcome in getattr(work, "outcomes", ()):
        if outcome.name not in ends:
            said = f"TASK CODE: {work.full_name} may be answered {outcome.name!r}, which chooses no state"
            yield (task.line, task.column), f"{said}: it ends in {' or '.join(ends)}; name one of them so"


def _fewest_routes(script: Script) -> int:
    """The fewest calls of `route` on any path through a script."""
    return sum(
        (statement.name == "route")
        if isinstance(statement, Perform)
        else min(_fewest_routes(statement.then), _fewest_routes(statement.otherwise))
        for statement in script
    )


def is_unattended(task: TaskDefinition) -> bool:
    """True if instances begin by themselves, and only scripts move them: neither code nor people do the work.

    A type that is invoked by hand is moved by the program that invokes it.
    """
    has_code = task.code is not None or bool(task.program)
    return task.invocation != "manual" and not has_code and not task.is_interactive


def moves_on(state: TaskState) -> bool:
    """True if a script of a state, on entry or on an event, may lead to another state."""
    return is_moving(state.on_assert) or any(is_moving(rule.action) for rule in state.rules)


def is_moving(script: Script) -> bool:
    """True if a script asserts a state, or raises an event without a type, such as that of an edge."""
    return any(
        call.name == "assert" or (call.name == "raise" and len(call.arguments) == 1)
        for call in calls_in(script)
    )

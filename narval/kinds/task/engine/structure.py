"""Static analysis of a type: rules that never fire, and states that no script enters or leaves.

Programs, people and events may move a task along any edge. But empty windows and constant false conditions
never change.
"""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.library import Library
from narval.core.engines.structure import Finding
from narval.kinds.task.language.checks import is_moving, is_unattended, moves_on
from narval.kinds.task.language.definition import (
    ABORT,
    EXCEPTION,
    Rule,
    Script,
    TaskDefinition,
    TaskState,
    calls_in,
    name_of,
)
from narval.kinds.task.language.time_specs import shown_times
from narval.kinds.task.language.windows import is_empty


def unreachable(task: TaskDefinition, library: Library) -> list[Finding]:
    """The rules that can never fire (errors), and the states that only a person or program can move, take
    over or undo (notes) (K30).
    """
    findings = [
        Finding(
            task.path, rule.line, 1, "error", rule.event, f"the rule of {rule.event} can never fire: {why}"
        )
        for rule in task.events
        for why in _never(rule)
    ]
    if is_unattended(task) and not task.is_global:
        findings += _by_hand(task)
    for state, why in (*_not_taken_over(task, library), *_not_undone(task, library)):
        findings.append(Finding(task.path, task.line, 1, "note", state, why))
    return sorted(findings)


def _never(rule: Rule) -> Iterator[str]:
    if rule.before_condition is not None and is_empty(rule.before_condition):
        yield f"no time is {shown_times(rule.before_condition)}, when its condition would be judged"
    if rule.condition is False:
        yield "its condition is false"
    if rule.before_action is not None and is_empty(rule.before_action):
        yield f"no time is {shown_times(rule.before_action)}, when its action would be done"


def _by_hand(task: TaskDefinition) -> Iterator[Finding]:
    """Notes on the states that a self-starting instance enters or leaves only by events, or never."""
    entered = [task.initial]
    for name in entered:
        state = task.states[name]
        if moves_on(state):
            entered += [after for after in state.edges.values() if after not in entered]
    for state in task.states.values():
        if state.name not in entered and state.edges:
            yield _note(task, state, "is entered by a program or a person alone: no script leads there")
        elif state.name in entered and state.edges and not is_moving(state.on_assert):
            moving = [rule.event for rule in state.rules if is_moving(rule.action)]
            only = f"on {' or '.join(dict.fromkeys(moving))}" if moving else "by a program or a person"
            yield _note(task, state, f"is left {only} alone: no script leads on from it by itself")


def _note(task: TaskDefinition, state: TaskState, message: str) -> Finding:
    return Finding(task.path, state.line, 1, "note", state.name, f"the state {state.name} {message}")


# --- with the other types --------------------------------------------------------------------------------


def _not_taken_over(definition: TaskDefinition, library: Library) -> Iterator[tuple[str, str]]:
    """A note if no script or type takes over objects in EXCEPTION."""
    leads = any(EXCEPTION in state.edges.values() for state in definition.states.values())
    taker = library.get(definition.kind, f"{definition.group}.exception")
    if leads and EXCEPTION not in definition.routes and taker is None:
        yield (
            EXCEPTION,
            "what comes to EXCEPTION is held for a person: add ON EXCEPTION, or a type `exception`",
        )


def _not_undone(definition: TaskDefinition, library: Library) -> Iterator[tuple[str, str]]:
    """A note on the tasks without a compensator before one that may reach ABORT."""
    if not any(ABORT in state.edges.values() for state in definition.states.values()):
        return
    named = library.of(definition.kind)
    before, line = set[str](), [definition.full_name]
    for name in line:
        for other in named.values():
            if isinstance(other, TaskDefinition) and other.full_name not in before and name in _routes(other):
                before.add(other.full_name)
                line.append(other.full_name)
    bare = sorted(
        name
        for name in before
        if isinstance(other := named[name], TaskDefinition) and not other.compensated_by
    )
    if bare:
        yield (
            ABORT,
            f"an ABORT leaves what these did before as it is: {', '.join(bare)}; they have no COMPENSATED BY",
        )


def _routes(task: TaskDefinition) -> set[str]:
    """The full names of types to which the scripts of a type route objects."""
    scripts: list[Script] = [*task.routes.values()]
    for state in task.states.values():
        scripts += [state.on_assert, state.on_leaving, *(rule.action for rule in state.rules)]
    targets = {
        name_of(call.arguments[0]) for script in scripts for call in calls_in(script) if call.name == "route"
    }
    return targets | {f"{task.group}.{name}" for name in targets}

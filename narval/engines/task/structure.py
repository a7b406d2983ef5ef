"""Rules that never fire, and states that nothing enters or leaves by itself, found on a type as written.

Programs, people and events move a task as they like, along its edges. But windows that hold no time, and a
condition that is false, are so whatever they do.
"""

from __future__ import annotations

from collections.abc import Iterator

from narval.definitions.library import Library
from narval.definitions.task.checks import is_moving, is_unattended, moves_on
from narval.definitions.task.definition import Rule, TaskDefinition, TaskState
from narval.definitions.task.emptiness import is_empty
from narval.definitions.task.times import shown_times
from narval.engines.structure import Finding


def unreachable(task: TaskDefinition, library: Library) -> list[Finding]:
    """The rules that can never fire (errors), and what only somebody outside can move (notes) (K30)."""
    told = [
        Finding(
            task.path, rule.line, 1, "error", rule.event, f"the rule of {rule.event} can never fire: {why}"
        )
        for rule in task.events
        for why in _never(rule)
    ]
    if is_unattended(task) and not task.is_global:
        told += _by_hand(task)
    return sorted(told)


def _never(rule: Rule) -> Iterator[str]:
    if rule.before_condition is not None and is_empty(rule.before_condition):
        yield f"no time is {shown_times(rule.before_condition)}, when its condition would be judged"
    if rule.condition is False:
        yield "its condition is false"
    if rule.before_action is not None and is_empty(rule.before_action):
        yield f"no time is {shown_times(rule.before_action)}, when its action would be done"


def _by_hand(task: TaskDefinition) -> Iterator[Finding]:
    """The states that an instance which begins by itself enters or leaves by events alone, or not at all."""
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

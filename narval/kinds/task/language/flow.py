"""The flow of tasks: scripts and tasks pass values on, so every element of a task may flow onwards."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from shlex import split

from narval.core.definitions.action.definition import Action
from narval.core.definitions.library import Library
from narval.core.kinds import ASKING, KINDS
from narval.core.patterns.pattern import Condition, condition
from narval.core.trust.flow import CallFlow, Flow, InMemory, coarse_call, program_call
from narval.kinds.task.language.definition import FUNCTIONS, Perform, ScriptValue, TaskDefinition, calls_in

_MAKING = ("split", "copy", "raise", "route")
"""The functions of scripts that make elements outside any prototype."""


def flow(task: TaskDefinition, library: Library) -> Flow:
    """The paths of elements through tasks of a type."""
    conditions = [rule.condition for rule in task.events if isinstance(rule.condition, Condition)]
    others = [InMemory(condition(run)) for run in KINDS[task.kind].runs]
    performed = list(_performed(task))
    makes = (None,) if any(call.name in _MAKING for call in performed) else ()
    calls = (*_calls(task, library), *chain.from_iterable(_call(task, one, library) for one in performed))
    return Flow(calls, (*map(InMemory, conditions), *others), makes=makes)


def _performed(task: TaskDefinition) -> Iterator[Perform]:
    of_states = ((state.on_assert, state.on_leaving) for state in task.states.values())
    scripts = (*chain.from_iterable(of_states), *(rule.action for rule in task.events), *task.routes.values())
    return chain.from_iterable(map(calls_in, scripts))


def _calls(task: TaskDefinition, library: Library) -> Iterator[CallFlow]:
    """The calls that do the work of a task: by code, by a program, by people."""
    if task.code is not None:
        yield from coarse_call(task.name, *task.code, library, group=task.group, line=task.line)
    if task.program:
        yield program_call(task.name, task.program[0], task.line)
    if task.is_interactive:
        yield from coarse_call(task.name, ASKING, "", library, line=task.line)


def _call(task: TaskDefinition, call: Perform, library: Library) -> Iterator[CallFlow]:
    first = call.arguments[0] if call.arguments else None
    if call.name in ("exec", "launch"):
        words = split(first.value) if isinstance(first, ScriptValue) else []
        yield program_call(task.name, words[0] if words else "", call.line)
    elif call.name not in FUNCTIONS:
        yield from coarse_call(task.name, Action.kind, call.name, library, group=task.group, line=call.line)

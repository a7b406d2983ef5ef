"""Task definitions as text in one canonical form, so that comments change nothing.

The store keeps this text, which can be parsed again; its digest is the version.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import join

from narval.kinds.task.language.definition import PREDEFINED, Rule, Script, TaskDefinition, TaskState
from narval.kinds.task.language.statements import shown_script
from narval.kinds.task.language.time_specs import shown_seconds, shown_times, shown_weekdays
from narval.kinds.task.language.words import quoted


def definition_text(task: TaskDefinition) -> str:
    """A type or a global event as it is written in a file."""
    return "\n".join(_lines(task) if task.rule is None else _event_lines(task, task.rule)) + "\n"


def _event_lines(task: TaskDefinition, rule: Rule) -> Iterator[str]:
    days = shown_weekdays(task.weekdays)
    every = "" if task.period is None else f" EVERY {shown_seconds(task.period)} SECS{days}"
    yield f"GLOBAL EVENT {rule.event}{every}{_rule_text(rule, '')}"


def _lines(task: TaskDefinition) -> Iterator[str]:
    yield f"TASK TYPE {task.name}"
    if task.users:
        yield f"  USERS: {', '.join(task.users)}"
    if task.roles:
        yield f"  ROLES: {', '.join(task.roles)}"
    period = "" if task.period is None else f" {shown_seconds(task.period)} SECS"
    yield f"  INVOCATION: {task.invocation.upper()}{period}{shown_weekdays(task.weekdays)}"
    if task.compensated_by:
        yield f"  COMPENSATED BY {task.compensated_by}"
    if task.compensates:
        yield f"  COMPENSATION TO {task.compensates}"
    if task.composed_from:
        yield f"  COMPOSED FROM {', '.join(task.composed_from)}"
    if task.program:
        yield f"  TASK CODE {quoted(f'exec: {join(task.program)}')}"
    elif task.code is not None:
        yield f"  TASK CODE {quoted(':'.join(filter(None, task.code)))}"
    yield f"  INITIAL {task.initial}"
    if task.final:
        yield f"  FINAL {' '.join(task.final)}"
    for state in task.states.values():
        if state.name not in PREDEFINED or state.says_something:
            yield from _state_lines(state)
    for name, script in task.routes.items():
        yield f"ON {name}\n{shown_script(script, '  ').rstrip() or '  ' + quoted('')}"


def _state_lines(state: TaskState) -> Iterator[str]:
    name = " ".join(dict.fromkeys(filter(None, (state.number, state.name))))
    yield f"  STATE {name} {'EXPOSED' if state.exposed else 'INTERNAL'}"
    for clause, script in (("ON ASSERT", state.on_assert), ("ON LEAVING", state.on_leaving)):
        if script:
            yield f"    {clause}{_block(script, '    ')}"
    for event, target in state.edges.items():
        yield f"    ON EVENT {event} GOTO {target}"
    for rule in state.rules:
        yield f"    {rule_text(rule)}"


def rule_text(rule: Rule) -> str:
    """A rule of a state as it is written."""
    return f"ON EVENT {rule.event}{_rule_text(rule, '    ')}"


def _rule_text(rule: Rule, indent: str) -> str:
    words = [f" ({', '.join(rule.parameters)})"] if rule.parameters else []
    words += [f" {rule.mode.upper()}"] if rule.mode else []
    for window, keyword in ((rule.before_condition, "CONDITION"), (rule.before_action, "ACTION")):
        words += [f"\n{indent}  {shown_times(window)}"] if window is not None else []
        words += [f"\n{indent}  {keyword}"]
        if keyword == "CONDITION" and rule.condition is not True:
            words += [f" {quoted('false' if rule.condition is False else rule.condition.text)}"]
    words += [f" RETRIES {rule.retries}"] if rule.retries else []
    return "".join(words) + (_block(rule.action, f"{indent}  ") if rule.action else "")


def _block(script: Script, indent: str) -> str:
    return f" {{\n{shown_script(script, indent + '  ')}{indent}}}"

"""The calls of scripts, checked and completed as a file is read (KA27).

The first argument of `route` and `raise`, and the event of `raise`, are paths that name a type or an event.
The argument of `assert` is a path of one name, that of a state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from shlex import split
from typing import cast

from msgspec.structs import replace

from narval.core.definitions.library import Check, Definition
from narval.core.definitions.reading.xml import Place, Reading
from narval.core.definitions.suggestions import closest
from narval.core.errors import Fault, PatternError
from narval.core.kinds import KINDS
from narval.core.patterns.pattern import compile_pattern
from narval.kinds.task.language import definition
from narval.kinds.task.language.written import StateTable

_NAMES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*|[0-9]{1,9}")
FORMS = {
    "route": ("route(TYPE) or route(TYPE, part)", 1, 2),
    "raise": ("raise(TYPE, EVENT, …) or raise(EVENT)", 1, None),
    "assert": ("assert(STATE)", 1, 1),
    "split": ("split('XPATH')", 1, 1),
    "copy": ("copy(n)", 1, 1),
    "set": ("set(PATH, value)", 2, 2),
    "exec": ("exec('CMD')", 1, 1),
    "launch": ("launch('CMD')", 1, 1),
}
"""The form of a call of each function, and the fewest and most of its arguments."""

Complaints = Callable[[definition.TaskDefinition], Iterable[str]]
"""A function that gives the faults of the definition that a place names."""


class ScriptRules:
    """A checker of the scripts of a type, or of a global event, which has no states."""

    def __init__(self, reading: Reading, group: str, states: StateTable | None) -> None:
        self._reading, self._group, self._states = reading, group, states
        self._edge_events = {event for edges in states.edges.values() for event in edges} if states else set()
        self._no_assert = ""

    def checked(self, script: definition.Script, at: str = "", *, no_assert: str = "") -> definition.Script:
        """A script with its names completed. It begins in the state `at`, if it may assert others.

        `no_assert` is the reason why it may not.
        """
        self._no_assert = no_assert or ("" if self._states else "a global event has no states")
        return self._walk(script, {at} if at else set())[0]

    def _walk(self, script: definition.Script, at: set[str]) -> tuple[definition.Script, set[str]]:
        """A completed script, and the states in which it may end."""
        made: list[definition.Statement] = []
        for statement in script:
            if isinstance(statement, definition.Choice):
                then, ends = self._walk(statement.then, at)
                otherwise, others = self._walk(statement.otherwise, at)
                made.append(replace(statement, then=then, otherwise=otherwise))
                at = ends | others
            else:
                call, at = self._call(statement, at)
                made.append(call)
        return tuple(made), at

    def _call(self, call: definition.Perform, at: set[str]) -> tuple[definition.Perform, set[str]]:
        if call.name not in definition.FUNCTIONS:
            self._action(call)
            return call, at
        form, fewest, most = FORMS[call.name]
        if len(call.arguments) < fewest or (most is not None and len(call.arguments) > most):
            self._fault(call, f"expected {form}, found {len(call.arguments)} arguments")
            return call, at
        if call.name == "assert":
            return self._assert(call, at)
        if call.name == "raise" and len(call.arguments) == 1:
            return self._raise_edge(call, at)
        arguments = list(call.arguments)
        if call.name in ("route", "raise"):
            arguments[0] = self._path(call, arguments[0], "the name of a type")
            if call.name == "raise":
                arguments[1] = self._path(call, arguments[1], "the name of an event")
            self._refer(call, arguments)
        if call.name == "split":
            self._check_split(call)
        elif call.name == "copy":
            self._check_copy(call)
        elif call.name in ("exec", "launch"):
            self._check_command(call)
        elif call.name == "set":
            self._check_set(call)
        return replace(call, arguments=tuple(arguments)), at

    def _action(self, call: definition.Perform) -> None:
        if "." in call.name:
            place, what = (call.line, call.column), f"{call.name}()"
            self._reading.refer(place, "", call.name, what, _answers_at_once(self._reading, place, what))
        else:
            hint = closest(call.name, definition.FUNCTIONS)
            self._fault(call, f"there is no function {call.name!r:.60}; an action has a full name{hint}")

    def _refer(self, call: definition.Perform, arguments: list[definition.Operand]) -> None:
        target = _text(arguments[0])
        what = f"{call.name}({target})"
        if call.name == "route":
            refer_to_type(self._reading, (call.line, call.column), target, what, self._group)
            return
        event, count = (
            _text(arguments[1]),
            sum(not definition.is_object(operand) for operand in arguments[2:]),
        )
        self._refer_to_event(call, target, what, lambda task: _no_rule(task, event, count))

    def _refer_to_event(
        self, call: definition.Perform, target: str, what: str, complaints: Complaints
    ) -> None:
        refer_to_type(self._reading, (call.line, call.column), target, what, self._group, complaints)

    def _path(
        self, call: definition.Perform, operand: definition.Operand, expectation: str
    ) -> definition.Operand:
        """An operand as a path; a text that is a name becomes one."""
        if isinstance(operand, definition.ScriptPath):
            return operand
        if not _NAMES.fullmatch(operand.value):
            self._fault(call, f"{call.name}: expected {expectation}, found {operand.value!r:.60}")
        return definition.ScriptPath(tuple(operand.value.split(".")), call.line, call.column)

    # --- states -----------------------------------------------------------------------------------------

    def _assert(self, call: definition.Perform, at: set[str]) -> tuple[definition.Perform, set[str]]:
        operand = self._path(call, call.arguments[0], "the name of a state")
        states, text = self._states, _text(operand)
        if states is None or self._no_assert:
            self._fault(call, f"assert: {self._no_assert}; remove it")
            return call, at
        name = states.find(text)
        if name is None:
            self._fault(call, f"assert: there is no state {text!r:.60}{states.hint(text)}")
            return call, at
        if at and not any(name in states.edges.get(state, {}).values() for state in at):
            from_ = " or ".join(sorted(at)[:3])
            self._fault(call, f"assert: no edge leads from {from_} to {name}; add ON EVENT … GOTO {name}")
        path = definition.ScriptPath((name,), call.line, call.column)
        return replace(call, arguments=(path,)), states.after(name)

    def _raise_edge(self, call: definition.Perform, at: set[str]) -> tuple[definition.Perform, set[str]]:
        """A call of `raise` with only an event: that of an edge, or a global event."""
        operand = self._path(call, call.arguments[0], "the name of an event")
        event = _text(operand)
        made = replace(call, arguments=(operand,))
        if event in self._edge_events and self._states is not None:
            if self._no_assert:
                self._fault(call, f"raise({event}): {self._no_assert}; remove it")
            return made, self._states.after(*at)
        names = ", ".join(sorted(self._edge_events)) or "none"
        what = f"raise({event}): the events of edges are {names}, and as a global event"
        self._refer_to_event(call, event, what, lambda task: _no_rule(task, task.name, 0))
        return made, at

    # --- arguments --------------------------------------------------------------------------------------

    def _check_split(self, call: definition.Perform) -> None:
        """Record a fault if the argument of `split` is not an XPath."""
        operand = call.arguments[0]
        try:
            if isinstance(operand, definition.ScriptPath):
                raise PatternError(_text(operand), "write it in quotes")
            compile_pattern(operand.value)
        except PatternError as error:
            self._fault(call, f"split: expected an XPath that gives the parts: {error.message}")

    def _check_copy(self, call: definition.Perform) -> None:
        """Record a fault if the number of copies is invalid."""
        operand = call.arguments[0]
        if isinstance(operand, definition.ScriptValue) and operand.value not in map(
            str, range(1, definition.MOST_COPIES + 1)
        ):
            message = f"expected how many, from 1 to {definition.MOST_COPIES}, found {operand.value!r:.40}"
            self._fault(call, f"copy: {message}")

    def _check_set(self, call: definition.Perform) -> None:
        """Record a fault if the first argument of `set` is not an attribute of the object."""
        operand = call.arguments[0]
        names = operand.names if isinstance(operand, definition.ScriptPath) else ()
        if not names or (
            len(names) == 1 and (names[0] in definition.THE_OBJECT or names[0] == definition.CARRIED)
        ):
            self._fault(call, "set: expected an attribute of the object, such as obj.answer")
        elif names[-1] in ("eid", "xmlns"):
            self._fault(call, f"set: narval gives {names[-1]}; choose another name")

    def _check_command(self, call: definition.Perform) -> None:
        """Record a fault if a command is not a literal text, or cannot be split into words."""
        operand = call.arguments[0]
        if isinstance(operand, definition.ScriptPath):
            why = "values are given by the environment, not in its words"
            self._fault(call, f"{call.name}: expected the text of a command in quotes; {why}")
        else:
            try:
                command_of(operand.value)
            except ValueError as error:
                self._fault(call, f"{call.name}: expected a command: {error}")

    def _fault(self, call: definition.Perform, message: str) -> None:
        self._reading.fault_at((call.line, call.column), message)


def command_of(text: str) -> tuple[str, ...]:
    """The words of a command. Raises ValueError if the text is not a command."""
    words = tuple(split(text))
    if not words:
        raise ValueError("it is empty; write the program and its arguments")
    return words


def routes_from(script: definition.Script) -> bool:
    """True if a script has a call of `route`."""
    return any(call.name == "route" for call in definition.calls_in(script))


def _text(operand: definition.Operand) -> str:
    return ".".join(operand.names) if isinstance(operand, definition.ScriptPath) else operand.value


# --- the types that are named ---------------------------------------------------------------------------


def receives_objects(task: definition.TaskDefinition) -> Iterator[str]:
    """The reason why no object can be sent to a definition, if there is one."""
    if task.is_global:
        yield f"{task.full_name} is a global event; expected a type of task"


def refer_to_type(
    reading: Reading,
    place: Place,
    target: str,
    what: str,
    group: str,
    complaints: Complaints = receives_objects,
) -> None:
    """Record that a place names a type or a global event, sought in the group first, then as a full name."""
    path = reading.source.path

    def check(task: Definition) -> Iterator[Fault]:
        for message in complaints(cast(definition.TaskDefinition, task)):
            yield Fault(path, *place, f"{what}: {message}")

    reading.refer(place, definition.TaskDefinition.kind, target, what, check, group=group)


def _answers_at_once(reading: Reading, place: Place, what: str) -> Check:
    """A check that a place names an action or a transform, not a definition that is run."""
    path = reading.source.path

    def check(target: Definition) -> Iterator[Fault]:
        row = KINDS.get(target.kind)
        if row is None or row.engine:
            why = f"{target.full_name} is a {target.kind}; expected an action"
            yield Fault(path, *place, f"{what}: {why}; what is run is the TASK CODE of a type")

    return check


def _no_rule(task: definition.TaskDefinition, event: str, count: int) -> Iterator[str]:
    rules = [rule for rule in task.events if rule.event == event]
    if not rules:
        names = {rule.event for rule in task.events}
        hint = closest(event, names) or ("" if names else "; it has none at all")
        yield f"{task.full_name} has no rule for the event {event!r:.60}{hint}"
    elif all(len(rule.parameters) != count for rule in rules):
        parameters = ", ".join(rules[0].parameters) or "none"
        yield f"the event {event} has the parameters ({parameters}), found {count}"

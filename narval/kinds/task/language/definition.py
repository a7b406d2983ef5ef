"""Definitions of task types and of global events, with their scripts as syntax trees (K27, KA27)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from shlex import split
from typing import ClassVar, Literal, NamedTuple

import msgspec

from narval.core.definitions.library import Definition, OwnNeed, RunDefinition
from narval.core.kinds import KINDS
from narval.core.patterns.pattern import Condition
from narval.kinds.task.language.windows import TimeSpec


class ScriptPath(msgspec.Struct, frozen=True, tag=True):
    """A dotted name: an attribute of the object, else the text of a child, of a child of that child …"""

    names: tuple[str, ...]
    line: int = 1
    column: int = 1


class ScriptValue(msgspec.Struct, frozen=True, tag=True):
    """A text, or a number as it is written."""

    value: str


Operand = ScriptPath | ScriptValue


def name_of(operand: Operand) -> str:
    """The name of a type, an event or a state, written bare or as a text."""
    return operand.value if isinstance(operand, ScriptValue) else ".".join(operand.names)


class Comparison(msgspec.Struct, frozen=True):
    """A test. A single operand is true if it exists and is not empty, `0` or `false`; `has` only tests
    whether it exists.
    """

    left: Operand
    operator: Literal["", "has", "==", "!=", "<", "<=", ">", ">="] = ""
    right: Operand | None = None


class Perform(msgspec.Struct, frozen=True, tag=True):
    """A call of a function of scripts, such as `route`, or of an action by its full name."""

    name: str
    arguments: tuple[Operand, ...] = ()
    line: int = 1
    column: int = 1


class Choice(msgspec.Struct, frozen=True, tag=True):
    """A choice between two scripts."""

    test: Comparison
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


Statement = Perform | Choice

Script = tuple[Statement, ...]
"""Statements, in order; blocks in braces are inlined."""

THE_OBJECT = frozenset({"obj", "object", "workobject"})
"""The words for the work object itself; a dot and what follows name a part of the object."""

CARRIED = "carried"
"""The word for the object that an event brought."""

MOST_COPIES = 100
"""The most copies that one statement may make."""

FUNCTIONS = ("route", "raise", "assert", "split", "copy", "set", "exec", "launch")
"""The functions of scripts besides actions."""


def calls_in(script: Script) -> Iterator[Perform]:
    """All the calls of a script, in the order of the file."""
    for statement in script:
        if isinstance(statement, Perform):
            yield statement
        else:
            yield from calls_in(statement.then)
            yield from calls_in(statement.otherwise)


def is_object(operand: Operand) -> bool:
    """True for the work object itself, which an event carries if it is an argument of `raise` (K39)."""
    return isinstance(operand, ScriptPath) and len(operand.names) == 1 and operand.names[0] in THE_OBJECT


FORWARD, COMMIT, ABORT, EXCEPTION = "FORWARD", "COMMIT", "ABORT", "EXCEPTION"

PREDEFINED = (FORWARD, COMMIT, ABORT, EXCEPTION)
"""The terminal states that every task has."""

_WORD = re.compile(r"[a-z][a-z0-9-]*")
_LONGEST_WORD = 64


def outcome_of(state: str) -> str:
    """The word with which people name a state, to answer with it or to move the task there."""
    word = state.lower().replace("_", "-")
    return (word if _WORD.fullmatch(word) else f"state-{word}")[:_LONGEST_WORD]


Invocation = Literal["manual", "auto", "compensation", "periodic"]
"""The ways in which instances begin."""

Mode = Literal["", "sync", "async"]
"""The word of a rule for how events are raised; "" for none."""


class Rule(msgspec.Struct, frozen=True):
    """A rule: the reaction to an event (K33). Its condition is judged within `before_condition`. Its action
    is done within `before_action`, counted from when the condition held. None: at once.

    `condition` is True or False if it is constant. Its variables are `object`, `carried`, `parameters`. A
    failed call of the action is retried `retries` times before the action fails.
    """

    event: str
    parameters: tuple[str, ...] = ()
    mode: Mode = ""
    before_condition: TimeSpec | None = None
    condition: Condition | bool = True
    before_action: TimeSpec | None = None
    action: Script = ()
    line: int = 1
    column: int = 1
    retries: int = 0


class TaskState(msgspec.Struct, frozen=True):
    """A state of a type (K25–K27)."""

    name: str
    """Its name, or its number if it has no name."""
    number: str = ""
    """Its number; "" for none."""
    exposed: bool = True
    """True if others see it, and events from elsewhere reach it."""
    on_assert: Script = ()
    """The code that runs when it is entered."""
    on_leaving: Script = ()
    """The code that runs when it is left."""
    edges: Mapping[str, str] = {}
    """The states to which it leads, by the name of an event."""
    rules: tuple[Rule, ...] = ()
    """The rules for events from elsewhere; several for one event are in the order of the file."""
    line: int = 1
    """The line in the file."""
    column: int = 1
    """The column in that line."""

    @property
    def says_something(self) -> bool:
        """True if its definition has more than its name."""
        return bool(self.number or self.on_assert or self.on_leaving or self.rules or not self.exposed)


class WaysOn(NamedTuple):
    """The states that people may choose from a state, by their words: non-terminal ones that are one edge
    away, and terminal ones at any distance.
    """

    moves: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


class TaskDefinition(RunDefinition, frozen=True, eq=False, kw_only=True):
    """The definition of a task type, or, with `rule`, of a global event, which has no states (K41).

    `states` are by name, including the predefined ones. `period` is the seconds of a periodic task, or of a
    global event with EVERY, on these `weekdays` (0 is Monday) if there are any. `code` is the kind and full
    name of the definition that does the work, `program` the words of a command instead. Types are named as
    written, and sought in the group first, then as full names. `routes` are the scripts of terminal states
    (K43); `composed_from` are the types whose parts are merged (K20).
    """

    kind: ClassVar[str] = "task"

    users: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    invocation: Invocation = "manual"
    period: float | None = None
    weekdays: tuple[int, ...] = ()
    compensated_by: str = ""
    compensates: str = ""
    composed_from: tuple[str, ...] = ()
    code: tuple[str, str] | None = None
    program: tuple[str, ...] = ()
    initial: str = ""
    final: tuple[str, ...] = ()
    states: Mapping[str, TaskState] = {}
    routes: Mapping[str, Script] = {}
    rule: Rule | None = None
    column: int = 1
    """The column of its name in its line."""

    @property
    def is_global(self) -> bool:
        """True for a global event."""
        return self.rule is not None

    @property
    def is_interactive(self) -> bool:
        """True if people do the work: it names users or roles, and no code."""
        return bool(self.users or self.roles) and self.code is None and not self.program

    @property
    def cannot_start(self) -> tuple[str, str] | None:
        """The reason why no instance can begin."""
        if self.is_global:
            return "global-event", f"an event is raised: narval task raise {self.full_name}"
        if self.is_interactive:
            return "by-people", f"people do it with an object: narval task put {self.full_name}"
        return None

    @property
    def cannot_take(self) -> tuple[str, str] | None:
        """The reason why no object can be put into its queue."""
        if self.is_global:
            return "global-event", f"{self.full_name} is a global event: it has no queue"
        if self.invocation == "compensation":
            return "compensator", f"{self.full_name} compensates: it is called when something is undone"
        return None

    def worked_by(self, find: Callable[[str, str], Definition | None]) -> Definition | None:
        """The definition that is its TASK CODE, whose kind may be omitted; None if none is loaded."""
        kind, name = self.code or ("", "")
        candidates = (find(kind_known, name) for kind_known in ([kind] if kind else KINDS))
        return next((definition for definition in candidates if definition is not None), None)

    def is_terminal(self, state: str) -> bool:
        """True for a state in which the work on an object ends."""
        return state in PREDEFINED or state in self.final

    def route_of(self, state: str) -> Script:
        """The script that routes the object from a terminal state. A terminal state that the type declares
        without a script uses that of FORWARD.
        """
        like = state if state in PREDEFINED or state in self.routes else FORWARD
        return self.routes.get(like, ())

    def rules_for(self, state: str, event: str) -> tuple[Rule, ...]:
        """The rules of a state for an event, in the order of the file."""
        if self.rule is not None:
            return (self.rule,) if event == self.rule.event else ()
        task_state = self.states.get(state)
        if task_state is None:
            return ()
        return tuple([rule for rule in task_state.rules if rule.event == event])  # often: no generator

    @property
    def programs(self) -> Iterator[str]:
        """The names of the programs that it runs, as its code and in its scripts."""
        yield from self.program[:1]
        of_states = ((state.on_assert, state.on_leaving) for state in self.states.values())
        scripts = (*chain.from_iterable(of_states), *(rule.action for rule in self.events))
        for call in chain.from_iterable(map(calls_in, (*scripts, *self.routes.values()))):
            if call.name in ("exec", "launch") and isinstance(call.arguments[0], ScriptValue):
                yield split(call.arguments[0].value)[0]

    @property
    def own_needs(self) -> Iterator[OwnNeed]:
        """The programs that it runs."""
        return (OwnNeed("program", name, f"task {self.name!r}", self.line) for name in self.programs)

    @property
    def events(self) -> Iterator[Rule]:
        """All rules, of all states."""
        if self.rule is not None:
            yield self.rule
        for state in self.states.values():
            yield from state.rules

    def ways_from(self, state: str) -> WaysOn:
        """The ways that people may choose from a state."""
        here = self.states.get(state)
        if here is None:
            return WaysOn()
        near = dict.fromkeys(target for target in here.edges.values() if not self.is_terminal(target))
        ends = (name for name in self.states if self.is_terminal(name) and self.way_to(state, name))
        return WaysOn(tuple(map(outcome_of, near)), tuple(map(outcome_of, ends)))

    def way_to(self, state: str, target: str) -> tuple[str, ...] | None:
        """The states on the shortest path from a state to another, which is last; None if there is no path.

        A state may only be asserted along an edge (K49).
        """
        ways: dict[str, tuple[str, ...]] = {state: ()}
        for name in (line := [state]):
            for following in self.states[name].edges.values():
                if following not in ways:
                    ways[following] = (*ways[name], following)
                    line.append(following)
        return ways.get(target) if target != state else ()

"""Faults of task types beyond syntax: the static rules of a type (K30, KA16, KA22)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from narval.core.definitions.reading.xml import Place, Reading
from narval.core.source.tokens import Token
from narval.kinds.task.language.calls import command_of, receives_objects, refer_to_type, routes_from
from narval.kinds.task.language.definition import COMMIT, FORWARD, PREDEFINED, TaskDefinition
from narval.kinds.task.language.texts_of import rule_text
from narval.kinds.task.language.words import content
from narval.kinds.task.language.written import StateTable, WrittenState, WrittenType

Complaint = tuple[Token, str]
"""A word, and what is wrong there."""


class TypeFacts(NamedTuple):
    """A type as read, its states, the definition made from it, and whether it compensates another (K46)."""

    written: WrittenType
    states: StateTable
    made: TaskDefinition
    compensator: bool


def complaints(type: TypeFacts) -> Iterator[Complaint]:
    """All faults of a type."""
    yield from _initial(type)
    for name, state in type.states.written.items():
        yield from _of_state(name, state, type.states, type.made)
    yield from _routes(type)
    if type.compensator:
        yield from _commits(type)
    if not type.written.broken and type.made.initial:
        yield from _graph(type)
        yield from _unrouted(type)


def _initial(type: TypeFacts) -> Iterator[Complaint]:
    written, states = type.written, type.states
    word = written.one("INITIAL")
    if word is None:
        if not written.broken:
            yield written.name, f"{written.name.text} needs INITIAL, the state in which it begins; add it"
        return
    name = states.find(word.text)
    if name is not None and name in states.terminal:
        yield word, f"INITIAL: {name} is a final state; expected one in which a task can begin"


def _of_state(
    name: str, state: WrittenState, states: StateTable, made: TaskDefinition
) -> Iterator[Complaint]:
    for event, _ in state.edges if name in states.terminal else ():
        yield event, f"{name} is a state in which the task is over: no edge leads from it; remove this"
    edges = {event.text for event, _ in state.edges}
    seen: set[str] = set()
    own = [rule for rule in state.rules if not rule.is_global]
    for written, rule in zip(own, made.states[name].rules, strict=True):
        if rule.event in edges:
            yield (
                written.event,
                f"{rule.event} is the event of an edge and of a rule of this state; rename one",
            )
        if (text := rule_text(rule)) in seen:
            yield written.event, f"this rule of {rule.event} appears twice in this state; remove one"
        seen.add(text)
    for written in state.rules:
        what = "it has no global event" if written.is_global else "it answers no events"
        if not state.exposed:
            yield written.event, f"{name} is INTERNAL: {what}; write EXPOSED, or move this"
        elif name in states.terminal and not written.is_global:
            yield written.event, f"{name} is a state in which the task is over: {what}; move this"


def _routes(type: TypeFacts) -> Iterator[Complaint]:
    for text, (clause, script) in type.written.routes.items():
        name = type.states.find(text)
        if name is None or name not in type.states.terminal:
            names = ", ".join(dict.fromkeys((*PREDEFINED, *type.states.final)))
            yield clause, f"ON: expected a state in which the task is over ({names}), found {text!r:.60}"
        elif name == COMMIT and routes_from(script):
            yield (
                clause,
                "ON COMMIT: the object is gone by then, and goes nowhere; remove route, or end in FORWARD",
            )


def _places(type: TypeFacts, name: str) -> Iterator[Token]:
    """The edges that lead to a state."""
    for state in type.written.states:
        for _, target in state.edges:
            if type.states.find(target.text) == name:
                yield target


def _commits(type: TypeFacts) -> Iterator[Complaint]:
    """The places where a compensator commits, while its chain continues."""
    message = "a compensator ends in FORWARD: the object is still needed by those before it"
    listed = (word for word in type.written.lists.get("FINAL", ()) if type.states.find(word.text) == COMMIT)
    for place in (*_places(type, COMMIT), *listed):
        yield place, f"COMMIT: {message}"
    for text, (clause, _) in type.written.routes.items():
        if type.states.find(text) == COMMIT:
            yield clause, f"ON COMMIT: {message}; remove this"


def _graph(type: TypeFacts) -> Iterator[Complaint]:
    """States that are never entered, and states without a way out."""
    states, initial = type.states, type.made.initial
    entered, hopeful = states.after(initial), states.leading_to(states.terminal)
    for name, state in states.written.items():
        if name in PREDEFINED:
            continue
        if name not in entered:
            yield (
                state.place,
                f"no edge leads from {initial} to {name}; add ON EVENT … GOTO {name}, or remove it",
            )
        elif name not in hopeful:
            ends = " or ".join(dict.fromkeys((*PREDEFINED, *states.final)))
            yield state.place, f"no way leads from {name} to {ends}; add ON EVENT … GOTO {FORWARD}"


def _unrouted(type: TypeFacts) -> Iterator[Complaint]:
    """A fault if an object can go nowhere from FORWARD, or from a final state like it."""
    made, states = type.made, type.states
    scripts = [*made.routes.values(), *(rule.action for rule in made.events)]
    scripts += [script for state in made.states.values() for script in (state.on_assert, state.on_leaving)]
    periodic = made.invocation == "periodic"  # it may have no object at all
    if type.compensator or periodic or any(map(routes_from, scripts)):
        return
    entered = states.after(made.initial)
    for name in (FORWARD, *states.final):
        if name in entered and (name == FORWARD or name not in PREDEFINED):
            clause = type.written.routes.get(FORWARD)
            place = clause[0] if clause is not None else next(_places(type, name), type.written.name)
            message = f"{name}: nothing says where the object goes from there"
            yield place, f"{message}; add ON FORWARD route(TYPE), or end in COMMIT"
            return


def compensators(types: Iterable[WrittenType], group: str) -> Mapping[str, str]:
    """The types of a file that compensate others in it, by name, each with the type that it compensates."""
    compensator_of: dict[str, str] = {}
    for type in types:
        if (by := type.one("COMPENSATED BY")) is not None:
            compensator_of[by.text.removeprefix(f"{group}.")] = type.name.text
        if (to := type.one("COMPENSATION TO")) is not None:
            compensator_of[type.name.text] = to.text.removeprefix(f"{group}.")
    return compensator_of


def cycles_of(types: Iterable[WrittenType], group: str) -> Iterator[Complaint]:
    """Types that compensate one another in a circle."""
    by = {
        type.name.text: word.text.removeprefix(f"{group}.")
        for type in types
        if (word := type.one("COMPENSATED BY")) is not None
    }
    reported: set[str] = set()
    for type in types:
        way = [type.name.text]
        while (following := by.get(way[-1])) is not None and following not in way:
            way.append(following)
        if following == way[0] and following not in reported:
            reported.update(way)
            word = type.one("COMPENSATED BY") or type.name
            circle = " → ".join((*way, way[0]))
            yield word, f"COMPENSATED BY: {circle} is a circle; what compensates is not compensated itself"


PERSON = re.compile(r"[a-z][a-z0-9-]{0,31}")
ROLE = re.compile(r"[a-z][a-z0-9-]{0,63}")
PROGRAM = "exec:"
"""The prefix of TASK CODE that is a command."""

_CODE = re.compile(r"(?:([a-z-]+):\s*)?([^\s./:]+\.[^\s./]+)")


class ClauseRules:
    """A checker of the clauses of a type, which converts them to values."""

    def __init__(self, reading: Reading, group: str, type: WrittenType) -> None:
        self._reading, self._group, self._type = reading, group, type

    def _place(self, word: Token) -> Place:
        return self._reading.source.place(word.at)

    def _note(self, word: Token, message: str) -> None:
        self._reading.fault_at(self._place(word), message)

    def values(self, states: StateTable) -> dict[str, Any]:
        """The values of the clauses of a type."""
        type = self._type
        code, program = self._code(type.given.get("TASK CODE"))
        initial = type.one("INITIAL")
        has_code = code is not None or bool(program)
        for clause, complains in (
            ("COMPENSATED BY", self._misfit_as_compensator),
            ("COMPENSATION TO", self._misfit_as_compensated),
            ("COMPOSED FROM", receives_objects),
        ):
            for word in type.lists.get(clause, ()):
                what = f"{clause} {word.text}"
                refer_to_type(self._reading, self._place(word), word.text, what, self._group, complains)
        by, to = type.one("COMPENSATED BY"), type.one("COMPENSATION TO")
        return {
            "users": self._people("USERS", PERSON),
            "roles": self._people("ROLES", ROLE),
            "invocation": type.invocation or ("auto" if has_code else "manual"),
            "period": type.period,
            "weekdays": type.weekdays,
            "compensated_by": by.text if by is not None else "",
            "compensates": to.text if to is not None else "",
            "composed_from": tuple(self._once("COMPOSED FROM")),
            "code": code,
            "program": program,
            "initial": "" if initial is None else states.named(initial) or "",
        }

    def _once(self, clause: str) -> Iterator[str]:
        """The words of a clause; a repeated one is a fault."""
        seen: set[str] = set()
        for word in self._type.lists.get(clause, ()):
            if word.text in seen:
                self._note(word, f"{clause}: {word.text!r:.60} appears twice; remove one")
            else:
                seen.add(word.text)
                yield word.text

    def _people(self, clause: str, form: re.Pattern[str]) -> tuple[str, ...]:
        for word in self._type.lists.get(clause, ()):
            if not form.fullmatch(word.text):
                message = "expected a word of small letters, digits and -, which begins with a letter"
                self._note(word, f"{clause}: {message}, found {word.text!r:.60}")
        return tuple(self._once(clause))

    def _code(self, string: Token | None) -> tuple[tuple[str, str] | None, tuple[str, ...]]:
        """The kind and name of the definition that does the work, or the words of a command."""
        if string is None:
            return None, ()
        text = content(string)[0].strip()
        if text.startswith(PROGRAM):
            try:
                return None, command_of(text.removeprefix(PROGRAM))
            except ValueError as error:
                self._note(string, f"TASK CODE: expected a command after {PROGRAM} {error}")
                return None, ()
        match = _CODE.fullmatch(text)
        if match is None:
            expectation = f"the full name of a definition, such as bank.scan, or {PROGRAM} and a command"
            self._note(string, f"TASK CODE: expected {expectation}, found {text!r:.60}")
            return None, ()
        self._reading.refer(self._place(string), match[1] or "", match[2], "TASK CODE")
        return (match[1] or "", match[2]), ()

    def _misfit_as_compensator(self, task: TaskDefinition) -> Iterator[str]:
        """The reasons why another type cannot compensate this one."""
        yield from receives_objects(task)
        if task.compensates and not self._is_meant(task.compensates, task.group):
            yield f"{task.full_name} is COMPENSATION TO {task.compensates}; make the two agree"
        if task.path == self._reading.source.path:
            return  # the rules of this file report that
        if task.compensated_by and self._is_meant(task.compensated_by, task.group):
            yield f"{task.full_name} is COMPENSATED BY this one; remove one"
        if any(COMMIT in state.edges.values() for state in task.states.values()):
            yield f"{task.full_name} may end in COMMIT, and a compensator ends in FORWARD; change that"

    def _misfit_as_compensated(self, task: TaskDefinition) -> Iterator[str]:
        """The reasons why this type cannot compensate another."""
        yield from receives_objects(task)
        if task.compensated_by and not self._is_meant(task.compensated_by, task.group):
            yield f"{task.full_name} is COMPENSATED BY {task.compensated_by}; make the two agree"
        elif not task.compensated_by:  # in the same file, its rules would report that
            own = f"{self._group}.{self._type.name.text}"
            yield f"{task.full_name} is in another file, and must say COMPENSATED BY {own} there"

    def _is_meant(self, written: str, group: str) -> bool:
        """True if a word in a file of some group may name this type."""
        own = self._type.name.text
        return written == f"{self._group}.{own}" or (written == own and group == self._group)

"""The clauses of a type: who runs it, how it is started, what does the work, what compensates it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from narval.core.definitions.reading.xml import Place, Reading
from narval.core.source.tokens import Token
from narval.kinds.task.language.calls import command_of, receives_objects, refer_to_type
from narval.kinds.task.language.definition import COMMIT, TaskDefinition
from narval.kinds.task.language.people import PERSON, ROLE
from narval.kinds.task.language.words import content
from narval.kinds.task.language.written import StateTable, WrittenType

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

    def _people(self, clause: str, wanted: re.Pattern[str]) -> tuple[str, ...]:
        for word in self._type.lists.get(clause, ()):
            if not wanted.fullmatch(word.text):
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
        found = _CODE.fullmatch(text)
        if found is None:
            wanted = f"the full name of a definition, such as bank.scan, or {PROGRAM} and a command"
            self._note(string, f"TASK CODE: expected {wanted}, found {text!r:.60}")
            return None, ()
        self._reading.refer(self._place(string), found[1] or "", found[2], "TASK CODE")
        return (found[1] or "", found[2]), ()

    def _misfit_as_compensator(self, found: TaskDefinition) -> Iterator[str]:
        """The reasons why another type cannot compensate this one."""
        yield from receives_objects(found)
        if found.compensates and not self._is_meant(found.compensates, found.group):
            yield f"{found.full_name} is COMPENSATION TO {found.compensates}; make the two agree"
        if found.path == self._reading.source.path:
            return  # the rules of this file report that
        if found.compensated_by and self._is_meant(found.compensated_by, found.group):
            yield f"{found.full_name} is COMPENSATED BY this one; remove one"
        if any(COMMIT in state.edges.values() for state in found.states.values()):
            yield f"{found.full_name} may end in COMMIT, and a compensator ends in FORWARD; change that"

    def _misfit_as_compensated(self, found: TaskDefinition) -> Iterator[str]:
        """The reasons why this type cannot compensate another."""
        yield from receives_objects(found)
        if found.compensated_by and not self._is_meant(found.compensated_by, found.group):
            yield f"{found.full_name} is COMPENSATED BY {found.compensated_by}; make the two agree"
        elif not found.compensated_by:  # in the same file, its rules would report that
            own = f"{self._group}.{self._type.name.text}"
            yield f"{found.full_name} is in another file, and must say COMPENSATED BY {own} there"

    def _is_meant(self, written: str, group: str) -> bool:
        """True if a word in a file of some group may name this type."""
        own = self._type.name.text
        return written == f"{self._group}.{own}" or (written == own and group == self._group)

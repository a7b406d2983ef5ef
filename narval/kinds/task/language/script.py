"""Scripts of tasks as syntax trees (K27, KA27): on entering a state, on leaving it, on events, at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec


class ScriptPath(msgspec.Struct, frozen=True, tag=True):
    """A name with dots: an attribute of the object, else the text of a child, of a child of it …"""

    names: tuple[str, ...]
    line: int = 1
    column: int = 1


class ScriptValue(msgspec.Struct, frozen=True, tag=True):
    """A text, or a number as it is written."""

    value: str


Operand = ScriptPath | ScriptValue


class Comparison(msgspec.Struct, frozen=True):
    """A test: an operand alone is true if it is there and not empty, `0` or `false`."""

    left: Operand
    operator: Literal["", "==", "!=", "<", "<=", ">", ">="] = ""
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
"""Statements, in order; blocks in braces stand in their place."""

THE_OBJECT = frozenset({"obj", "object", "workobject"})
"""The words for the work object itself; what follows one with a dot is of the object."""

CARRIED = "carried"
"""The word for the object that an event brought."""

MOST_COPIES = 100
"""So many copies one statement may make."""

FUNCTIONS = ("route", "raise", "assert", "split", "copy", "exec", "launch")
"""The functions of scripts beside actions."""


def calls_in(script: Script) -> Iterator[Perform]:
    """All the calls of a script, in the order of the file."""
    for statement in script:
        if isinstance(statement, Perform):
            yield statement
        else:
            yield from calls_in(statement.then)
            yield from calls_in(statement.otherwise)


def is_object(operand: Operand) -> bool:
    """True of the work object itself, which an event carries if it is an argument of `raise` (K39)."""
    return isinstance(operand, ScriptPath) and len(operand.names) == 1 and operand.names[0] in THE_OBJECT

"""Syntax trees of guards (Rubric) and joins (JoinLang) of processes (sections 4 and 6).

`rubric.py` and `joinlang.py` make these from text; the process engine evaluates them. All are plain data.
`line` and `column` are places in the file, where errors of evaluation can be shown.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from narval.core.definitions.reading.expressions import Expression

# --- results --------------------------------------------------------------------------------------------

Unit = Literal["second", "minute", "hour", "day", "week"]


class NamedDate(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The name of a date function."""

    name: str
    line: int = 1
    column: int = 1


class RelativeDate(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A number of units after a named date, before it if `offset` is negative; `business` has no effect."""

    offset: int
    unit: Unit
    base: NamedDate
    business: bool = False


Date = NamedDate | RelativeDate


class Accept(msgspec.Struct, frozen=True, tag=True):
    """The node is executed."""


class Discard(msgspec.Struct, frozen=True, tag=True):
    """The token ends here."""


class Skip(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The node is left out: the token leaves on the arcs of that name, "" being the default."""

    arc: str = ""
    line: int = 1
    column: int = 1


class DelayUntil(msgspec.Struct, frozen=True, tag=True):
    """The guard is asked again at that moment."""

    date: Date


class Number(msgspec.Struct, frozen=True, tag=True):
    """A number; not an answer of a guard."""

    value: int


class Text(msgspec.Struct, frozen=True, tag=True):
    """A text; not an answer of a guard."""

    value: str


class DateValue(msgspec.Struct, frozen=True, tag=True):
    """A date; not an answer of a guard."""

    date: Date


class StringValue(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The text that a string function of that name gives; not an answer of a guard."""

    name: str
    line: int = 1
    column: int = 1


Result = Accept | Discard | Skip | DelayUntil | Number | Text | DateValue | StringValue


class If(msgspec.Struct, frozen=True, tag=True):
    """A choice: `then` if the condition holds, else `otherwise`."""

    condition: Expression
    then: Statement
    otherwise: Statement


Statement = If | Result
"""A program of Rubric."""

# --- joins ----------------------------------------------------------------------------------------------


class NodeRequired(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """`require node "NAME"`: a token has come from that node."""

    node: str
    when: Expression | None = None


class SetRequired(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """`require tokenset "NAME"`: all active tokens of such a set have come."""

    name: str
    when: Expression | None = None


class ArcsRequired(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """`require all arcs`, `require at least N arcs`, optionally `labelled`.

    `least` is None for all arcs. `label` is None for arcs of any name, "" for those of the default name.
    """

    least: int | None = None
    label: str | None = None
    when: Expression | None = None


Requirement = NodeRequired | SetRequired | ArcsRequired

Join = tuple[tuple[Requirement, ...], ...]
"""A program of JoinLang: sets of requirements, one of which must be met."""

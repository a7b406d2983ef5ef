"""Syntax of a dataflow file: the written parts, with the place of each, before they are interpreted."""

from __future__ import annotations

from typing import Literal

import msgspec

from narval.kinds.dataflow.language.names import FilePlace, place_of

ALIASES = "// example aliases"
GROUP = "// group "
"""The first line of a file in which names in capitals have the order of the examples (TA8)."""


class Written(msgspec.Struct, frozen=True):
    """An argument or output: the name of a datum, a text, a number, `_`, or a group of these."""

    kind: Literal["name", "text", "number", "group"]
    text: str
    line: int
    column: int
    group: tuple[Written, ...] = ()
    marks: tuple[tuple[int, int, int], ...] = ()

    @property
    def value(self) -> str | int | float:
        """The value of a text or number."""
        if self.kind != "number":
            return self.text
        return float(self.text) if "." in self.text else int(self.text)

    def __str__(self) -> str:
        if self.kind == "group":
            return f"({', '.join(map(str, self.group))})"
        if self.kind == "text":
            shown = self.text.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{shown}"'
        return self.text

    def place(self, at: int) -> tuple[int, int]:
        """The line and column of a character of a text; `marks` has its lines and escapes."""
        place = self.line, self.column
        for offset, line, column in self.marks:
            if offset <= at:
                place = line, column + at - offset
        return place


class Declared(msgspec.Struct, frozen=True):
    """An input or output of a plan, or a port of an operator; `type` is "" if none is written."""

    name: str
    type: str
    line: int
    column: int
    many: bool = False


class Clauses(msgspec.Struct, frozen=True):
    """The clauses of a call: names of data."""

    wait: tuple[Written, ...] = ()
    enable: tuple[Written, ...] = ()
    started: tuple[Written, ...] = ()
    on_error: tuple[Written, ...] = ()


class Statement(msgspec.Struct, frozen=True):
    """A call of an operator or a plan."""

    name: str
    line: int
    column: int
    arguments: tuple[Written, ...] = ()
    outputs: tuple[Written, ...] = ()
    clauses: Clauses = Clauses()


class PlanSyntax(msgspec.Struct, frozen=True):
    """A plan as written; `text` is all of it. A `partial` one has unreadable calls."""

    name: str
    line: int
    column: int
    inputs: tuple[Declared, ...] = ()
    outputs: tuple[Declared, ...] = ()
    statements: tuple[Statement, ...] = ()
    text: str = ""
    partial: bool = False


class OperatorSyntax(msgspec.Struct, frozen=True):
    """The declaration of an operator as written; `properties` are by name in lower case."""

    name: str
    line: int
    column: int
    inputs: tuple[Declared, ...] = ()
    outputs: tuple[Declared, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    text: str = ""


Unit = PlanSyntax | OperatorSyntax


class PlanSource(msgspec.Struct, frozen=True, eq=False):
    """A plan as in its file, with the aliases and the operator declarations that apply there."""

    syntax: PlanSyntax
    path: str
    aliases: bool = False
    declared: tuple[OperatorSyntax, ...] = ()
    group: str = ""
    """The group that its file declares; "" for none."""

    @property
    def place(self) -> FilePlace:
        """The place of its file."""
        return place_of(self.path, self.group)

    @property
    def full_name(self) -> str:
        """`group.name`."""
        return f"{self.place.group}.{self.syntax.name}"

"""Syntax of a dataflow file: the written parts, with the place of each, before they are interpreted.

Plans are named by folders below `recipes`, files in them, and plans in those (T15, TA29, TA30). A plan of the
file `recipes/amazon/popular.plan` is `/amazon/Books`, or in full `/amazon/popular/Books`. It is started by
the name of its group, as `popular.Books`. A reference is resolved from the folder of its plan; a plan of the
same file comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

import msgspec

RECIPES = "recipes"


class FilePlace(NamedTuple):
    """The place of a file: its folders below `recipes`, its name without the suffix, and the group of its
    plans, by default that name.
    """

    folders: tuple[str, ...]
    file: str
    group: str


def place_of(path: str, group: str = "") -> FilePlace:
    """The place of a file, from its path and the group that it declares, if any."""
    parts = PurePosixPath(path).parts
    below = len(parts) - parts[::-1].index(RECIPES) if RECIPES in parts[:-1] else len(parts) - 1
    stem = PurePosixPath(path).stem
    return FilePlace(parts[below:-1], stem, group or stem)


class PlanNames:
    """The full names of plans, by the paths that lead to them."""

    def __init__(self, plans: Iterable[tuple[FilePlace, str]]) -> None:
        self._by_path: dict[tuple[str, ...], list[str]] = {}
        for place, name in plans:
            for path in {(*place.folders, name), (*place.folders, place.file, name)}:
                self._by_path.setdefault(path, []).append(f"{place.group}.{name}")

    def found(self, reference: str, at: FilePlace) -> list[str]:
        """The full names of the plans that a reference in a file may mean: none, one, or several."""
        for path in _paths(reference, at):
            if plan := self._by_path.get(path):
                return plan
        return []

    def known(self, at: FilePlace) -> list[str]:
        """The shortest references by which plans can be called from a file."""
        name_shown: dict[str, str] = {}
        for path, names in sorted(self._by_path.items(), key=lambda item: len(item[0])):
            near = path[:-1] in (at.folders, (*at.folders, at.file))
            for name in names:
                name_shown.setdefault(name, path[-1] if near else "/" + "/".join(path))
        return list(name_shown.values())

    def paths(self) -> Mapping[tuple[str, ...], list[str]]:
        """The full names by path."""
        return self._by_path


def _paths(reference: str, at: FilePlace) -> list[tuple[str, ...]]:
    """The paths that a reference may mean, in the order in which they are tried."""
    if reference.startswith("/"):
        return [tuple(reference[1:].split("/"))]
    folders, parts = list(at.folders), reference.split("/")
    while parts[0] == "..":
        folders, parts = folders[:-1], parts[1:]
    if len(parts) == 1 and not reference.startswith(".."):
        return [(*folders, at.file, *parts), (*folders, *parts)]
    return [(*folders, *parts)]


ALIASES = "// example aliases"
GROUP = "// group "
"""The first line of a file in which names in capitals have the order of the examples."""


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
            escaped = self.text.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"'
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

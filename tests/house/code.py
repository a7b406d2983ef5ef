"""The code of the package as data, each file read and walked once, for the rules of the house."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.places import ROOT

PACKAGE = ROOT / "narval"
ENTRANCES = {"narval", "narval.__main__", "narval.api"}
"""The modules that embedders, modules of actions and the command line open: they belong to no room."""

Node = TypeVar("Node", bound=ast.AST)


class Import(NamedTuple):
    """An import of one module of the package by another; `typing_only` if the type checker alone sees it."""

    importer: str
    imported: str
    name: str
    line: int
    typing_only: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.name}"


class Statement(NamedTuple):
    """Something that a file imports, by its full name."""

    name: str
    line: int
    typing_only: bool


class File(NamedTuple):
    """A file of Python: its tree, and its nodes by type in the order of a walk."""

    text: str
    tree: ast.Module
    by_type: Mapping[type[ast.AST], list[ast.AST]]
    imports: tuple[Statement, ...]


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name, without the entrances and empty packages."""
    by_name = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name not in ENTRANCES:
            by_name[name] = path
    return by_name


@cache
def read(path: Path) -> File:
    """A file, read once for all rules; whether a name is read or set, its own node says."""
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    by_type: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    statements: list[Statement] = []
    stack: list[tuple[ast.AST, bool]] = [(tree, False)]
    while stack:
        node, typing_only = stack.pop()
        by_type[type(node)].append(node)
        if isinstance(node, ast.Import):
            statements += [Statement(alias.name, node.lineno, typing_only) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            statements += [
                Statement(f"{node.module}.{alias.name}", node.lineno, typing_only) for alias in node.names
            ]
        inside = typing_only or (isinstance(node, ast.If) and _is_for_types(node.test))
        for field in reversed(node._fields):
            value = getattr(node, field, None)
            for child in reversed(value) if type(value) is list else (value,):
                if isinstance(child, ast.AST) and not isinstance(child, ast.expr_context):
                    stack.append((child, inside))
    return File(text, tree, by_type, tuple(statements))


def _is_for_types(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def nodes(path: Path, *types: type[Node]) -> list[Node]:
    """The nodes of these types in a file."""
    by_type = read(path).by_type
    return [node for type_ in types for node in by_type.get(type_, ())]  # type: ignore[misc]


@cache
def imports() -> tuple[Import, ...]:
    """Every import of one module of the package by another."""
    return tuple(
        Import(importer, imported, name, line, typing_only)
        for importer, path in modules().items()
        for name, line, typing_only in statements(path)
        if (imported := module_of(name)) in modules() and imported != importer
    )


def statements(path: Path) -> tuple[Statement, ...]:
    """Each thing a module imports, by its full name, wherever the import stands."""
    return read(path).imports


@cache
def module_of(name: str) -> str:
    """The module that an import names: the name itself, or the module it is taken from."""
    return name if name in modules() or name in ENTRANCES else name.rpartition(".")[0]


@cache
def classes() -> tuple[tuple[str, ast.ClassDef], ...]:
    """Every class of the package with the name of its module."""
    return tuple((module, node) for module, path in modules().items() for node in nodes(path, ast.ClassDef))


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a file."""
    return [*nodes(path, ast.FunctionDef), *nodes(path, ast.AsyncFunctionDef)]


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings of a file: of the module, its classes, functions, and the texts under constants."""
    for node in nodes(path, ast.Expr):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def circles(needs: dict[str, set[str]]) -> Iterator[list[str]]:
    """The ways from a name back to itself, one for each edge that closes one."""
    done: set[str] = set()

    def visit(name: str, way: list[str]) -> Iterator[list[str]]:
        if name in way:
            yield [*way[way.index(name) :], name]
        elif name not in done:
            for needed in sorted(needs.get(name, ())):
                yield from visit(needed, [*way, name])
            done.add(name)

    for name in sorted(needs):
        yield from visit(name, [])

"""The code of the package as data: modules, imports, classes, names, for the rules of the house."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.places import ROOT

PACKAGE = ROOT / "narval"
ENTRANCES = {"narval", "narval.__main__"}
"""The modules that embedders and the command line open: they belong to no layer."""


class Import(NamedTuple):
    """An import of one module of the package by another; `typing_only` if the type checker alone sees it."""

    importer: str
    imported: str
    name: str
    line: int
    typing_only: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.name}"


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name, without the entrances and empty packages."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name not in ENTRANCES:
            found[name] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"))


@cache
def imports() -> tuple[Import, ...]:
    """Every import of one module of the package by another."""
    return tuple(
        Import(importer, imported, name, line, typing_only)
        for importer, path in modules().items()
        for name, line, typing_only in statements(path)
        if (imported := module_of(name)) in modules() and imported != importer
    )


def statements(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Each thing a module imports, by its full name, wherever the import stands."""
    for node, typing_only in _walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, typing_only
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno, typing_only


def _walk(node: ast.AST, typing_only: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        inside = typing_only or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
        yield child, inside
        yield from _walk(child, inside)


def module_of(name: str) -> str:
    """The module that an import names: the name itself, or the module it is taken from."""
    return name if name in modules() or name in ENTRANCES else name.rpartition(".")[0]


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Every class of the package with the name of its module."""
    for module, path in modules().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                yield module, node


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings of a file: of the module, its classes, functions, and the texts under constants."""
    for node in ast.walk(tree(path)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
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

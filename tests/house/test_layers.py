"""Imports point one way, and the core touches nothing (docs/design.md).

    errors, source ← memory ← definitions ← engines ← exploration ← runtime ← operations ← simulation ←
    surfaces

Imports inside functions count. What is for the type checker alone may go in a circle within its layer.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.places import ROOT

PACKAGE = ROOT / "narval"
LAYERS = (
    ("errors", "source"),
    ("memory",),
    ("definitions",),
    ("engines",),
    ("exploration",),
    ("runtime",),
    ("operations",),
    ("simulation",),
    ("surfaces",),
)
CORE = ("errors", "source", "memory", "definitions", "engines", "exploration")
ENTRANCES = {"narval", "narval.__main__"}
"""What embedders and the command line open: no layer, and nothing but the version is taken from there."""

STANDARD = """__future__ abc array ast base64 binascii bisect codecs collections contextlib dataclasses
    difflib enum functools hashlib heapq html importlib inspect itertools keyword math operator re
    reprlib string struct textwrap types typing unicodedata weakref xml"""
INSTALLED = "elementpath lxml msgspec"
PURE = frozenset(f"{STANDARD} {INSTALLED}".split())
"""What the core may import: nothing here has a clock, chance, files, threads, sockets or logging."""
PURE_NAMES = frozenset(
    {
        "pathlib.PurePath",
        "pathlib.PurePosixPath",
        "shlex.split",
        "datetime.UTC",
        "datetime.date",
        "datetime.datetime",
        "datetime.timedelta",
        "datetime.timezone",
        "datetime.tzinfo",
        "zoneinfo.ZoneInfo",
    }
)
"""Names it may take from what is not pure as a whole."""

WORLDLY = frozenset({"open", "input", "print", "eval", "exec", "compile", "__import__", "breakpoint"})
WORLDLY_METHODS = frozenset(
    {"open", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "now", "today"}
)
"""Calls that reach outside, or run what stands in a value."""


class Import(NamedTuple):
    """That one module imports another, or a name of it; perhaps for the type checker alone."""

    importer: str
    imported: str
    name: str
    line: int
    typing_only: bool

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.name}"


# --- the layers -------------------------------------------------------------------------------------------


def test_every_module_is_in_a_layer() -> None:
    assert {layer_of(name) for name in modules()} == {name for layer in LAYERS for name in layer}


def test_imports_point_one_way() -> None:
    assert [str(each) for each in imports() if rank(each.imported) > rank(each.importer)] == []


def test_no_layer_takes_what_the_package_offers_to_embedders() -> None:
    # Those names are of every layer: importing one of them from below would point right unseen.
    taken = {
        name
        for path in modules().values()
        for name, _, typing_only in statements(path)
        if not typing_only and module_of(name) in ENTRANCES
    }
    assert taken - {"narval", "narval.__version__"} == set()


def test_no_module_imports_itself_by_way_of_others() -> None:
    needs: dict[str, set[str]] = {}
    for each in imports():
        if not each.typing_only:
            needs.setdefault(each.importer, set()).add(each.imported)
    assert list(cycles(needs)) == []


def test_the_runtime_knows_the_contract_of_engines_and_the_table_and_no_kind() -> None:
    contract = {
        "narval.engines.registry",
        *(f"narval.engines.{name}" for name in ("commands", "engine", "events", "structure", "view")),
    }
    wrong = [
        str(each)
        for each in imports()
        if layer_of(each.importer) == "runtime"
        and layer_of(each.imported) == "engines"
        and each.imported not in contract
    ]
    assert wrong == []


# --- the core ---------------------------------------------------------------------------------------------


def test_the_core_has_no_clock_chance_files_threads_sockets_or_logging() -> None:
    wrong = [
        f"{name}:{line} imports {imported}"
        for name, path in core()
        for imported, line in foreign(path)
        if imported.partition(".")[0] not in PURE and imported not in PURE_NAMES
    ]
    assert wrong == []


def test_the_core_opens_prints_and_evaluates_nothing() -> None:
    wrong = [
        f"{name}:{line} calls {called}"
        for name, path in core()
        for called, line in calls(path)
        if called in WORLDLY or called == "etree.parse" or called.partition(".")[2] in WORLDLY_METHODS
    ]
    assert wrong == []


def test_importing_the_core_loads_nothing_above_it() -> None:
    # What the rules above cannot see: an import by name.
    script = (
        "import importlib, sys\n"
        f"for name in {' '.join(name for name, _ in core())!r}.split(): importlib.import_module(name)\n"
        "print(*(name for name in sys.modules if name.startswith('narval.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {layer_of(name) for name in done.stdout.split()} == set(CORE)


# --- the checks see what they should ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import time", ["time"]),
        ("import os.path", ["os.path"]),
        ("from threading import Lock", ["threading.Lock"]),
        ("def f():\n    from random import random", ["random.random"]),
        ("if TYPE_CHECKING:\n    import logging", []),
        ("from narval import memory", []),
    ],
)
def test_imports_are_seen_wherever_they_stand(tmp_path: Path, text: str, found: list[str]) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    assert [name for name, _ in foreign(path)] == found


def test_calls_are_seen_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("def f():\n    return [each.open() for each in g(eval(x)).read_text()]")
    assert {name for name, _ in calls(path)} == {"each.open", ".read_text", "g", "eval"}


def test_a_circle_is_seen() -> None:
    assert list(cycles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()})) == [["a", "b", "c", "a"]]


# --- reading ----------------------------------------------------------------------------------------------


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name, the entrances left out."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name not in ENTRANCES:
            found[name] = path
    return found


def core() -> Iterator[tuple[str, Path]]:
    return ((name, path) for name, path in modules().items() if layer_of(name) in CORE)


@cache
def tree(path: Path) -> ast.Module:
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


def foreign(path: Path) -> Iterator[tuple[str, int]]:
    """What a module imports that is not narval's; what is for the type checker alone does not count."""
    for name, line, typing_only in statements(path):
        if name.partition(".")[0] != "narval" and not typing_only:
            yield name, line


def statements(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Each thing a module imports, by its full name."""
    for node, typing_only in walk(tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, typing_only
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno, typing_only


def walk(node: ast.AST, typing_only: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        inside = typing_only or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
        yield child, inside
        yield from walk(child, inside)


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """What a module calls: `name`, or `name.method`, or `.method` of what has no name."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            yield f"{of.id if isinstance(of, ast.Name) else ''}.{node.func.attr}", node.lineno


def module_of(name: str) -> str:
    """The module that an import names: the name itself, or what it is taken from."""
    return name if name in modules() or name in ENTRANCES else name.rpartition(".")[0]


def layer_of(module: str) -> str:
    return module.split(".")[1]


def rank(module: str) -> int:
    """How far right a module's layer is."""
    return next(at for at, layer in enumerate(LAYERS) if layer_of(module) in layer)


def cycles(needs: dict[str, set[str]]) -> Iterator[list[str]]:
    """The ways from a module back to itself, one for each import that closes one."""
    done: set[str] = set()

    def visit(name: str, way: list[str]) -> Iterator[list[str]]:
        if name in way:
            yield [*way[way.index(name) :], name]
        elif name not in done:
            for each in sorted(needs.get(name, ())):
                yield from visit(each, [*way, name])
            done.add(name)

    for name in sorted(needs):
        yield from visit(name, [])

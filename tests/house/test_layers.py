"""Imports point one way, and the core touches nothing (docs/explanation/design.md, "The house").

Imports within functions and those for the type checker alone count like any other.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.code import ENTRANCES, circles, imports, module_of, modules, statements, tree

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
"""From left to right; an import points left, or stays within its layer."""

RUNTIME = (
    ("system",),
    ("scripts",),
    ("store", "home"),
    ("backups",),
    ("agent",),
    ("calls",),
    ("messages",),
    ("daemon",),
)
"""The packages of the runtime, in the same order."""

CORE = ("errors", "source", "memory", "definitions", "engines", "exploration")

STANDARD = """__future__ abc array ast base64 binascii bisect codecs collections contextlib dataclasses
    difflib enum functools hashlib heapq html importlib inspect itertools keyword math operator re
    reprlib string struct textwrap tomllib types typing unicodedata weakref xml"""
INSTALLED = "elementpath lxml msgspec re2"
PURE = frozenset(f"{STANDARD} {INSTALLED}".split())
"""The packages that the core may import: nothing there has a clock, chance, files, threads or sockets."""
PURE_NAMES = frozenset(
    {
        "json.dumps",
        "json.loads",
        "pathlib.PurePath",
        "pathlib.PurePosixPath",
        "shlex.join",
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
"""Names it may take from packages that are not pure as a whole."""

WORLDLY = frozenset({"open", "input", "print", "eval", "exec", "compile", "__import__", "breakpoint"})
WORLDLY_METHODS = frozenset(
    {"open", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "now", "today"}
)
"""Calls that reach outside, or run what stands in a value."""


# --- the order --------------------------------------------------------------------------------------------


def test_every_module_is_in_a_layer() -> None:
    assert {layer_of(name) for name in modules()} == {name for layer in LAYERS for name in layer}


def test_imports_point_left() -> None:
    wrong = [
        str(found)
        for found in imports()
        if place(LAYERS, layer_of(found.imported)) > place(LAYERS, layer_of(found.importer))
    ]
    assert wrong == []


def test_within_the_runtime_imports_point_left() -> None:
    wrong = [
        str(found)
        for found in imports()
        if layer_of(found.importer) == layer_of(found.imported) == "runtime"
        and place(RUNTIME, package_of(found.imported)) > place(RUNTIME, package_of(found.importer))
    ]
    assert wrong == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    needs: dict[str, set[str]] = {}
    for found in imports():
        needs.setdefault(found.importer, set()).add(found.imported)
    assert list(circles(needs)) == []


def test_no_layer_takes_names_that_the_package_offers_to_embedders() -> None:
    # Those names come from every layer: importing one of them from below would point right unseen.
    taken = {
        name for path in modules().values() for name, _, _ in statements(path) if module_of(name) in ENTRANCES
    }
    assert taken - {"narval", "narval.__version__"} == set()


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


def test_importing_the_core_loads_nothing_to_its_right() -> None:
    # Imports by name are seen by nothing but this.
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
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()})) == [["a", "b", "c", "a"]]


# --- reading ----------------------------------------------------------------------------------------------


def core() -> Iterator[tuple[str, Path]]:
    return ((name, path) for name, path in modules().items() if layer_of(name) in CORE)


def foreign(path: Path) -> Iterator[tuple[str, int]]:
    """The imports of a module that are not narval's and are there when it runs."""
    for name, line, typing_only in statements(path):
        if name.partition(".")[0] != "narval" and not typing_only:
            yield name, line


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """The calls of a module: `name`, or `name.method`, or `.method` of a value without a name."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            yield f"{of.id if isinstance(of, ast.Name) else ''}.{node.func.attr}", node.lineno


def layer_of(module: str) -> str:
    return module.split(".")[1]


def package_of(module: str) -> str:
    return module.split(".")[2]


def place(order: tuple[tuple[str, ...], ...], name: str) -> int:
    return next(at for at, names in enumerate(order) if name in names)

"""Rooms stay small enough to be read at one sitting; every exception gives its reason."""

from __future__ import annotations

import ast

from tests.house.code import PACKAGE, classes, modules
from tests.places import ROOT

FILE, CLASS, METHODS, ATTRIBUTES, FOLDER, TEST_FILE = 400, 200, 15, 10, 20, 600
"""Lines of a file, lines of a class, public methods of a class, attributes that `__init__` sets, modules of a
folder, lines of a file of tests.
"""

METHODS_ALLOWED: dict[str, str] = dict.fromkeys(
    ("AnyMemory", "TurnView"), "it answers every question of a view"
)
"""Classes with more public methods, and why."""

ATTRIBUTES_ALLOWED: dict[str, str] = {
    "Token": "plain data that the code of processes reads (section 8)",
    "FilesInForce": "what counts of all files, and why they were not read this time",
    "FlowDriver": "three of them are the events of one loop: something came, there is room, a turn is done",
    "Executor": "who asks about calls gets its backends' programs, places and troubles from it",
}
"""Classes whose `__init__` sets more attributes, and why."""

FOLDERS_ALLOWED: dict[str, str] = {
    "operations": "the place of an error is asked for by two folders within it",
    "runtime/home": "what a home's files are, each kind of them in a room",
}
"""Folders with more rooms, and why."""

CLASSES_ALLOWED: dict[str, str] = {
    "Dispatcher": "what is performed, and what is performed again after a start or an outage, is one thing"
}
"""Classes with more lines, and why."""


def test_no_file_is_longer_than_can_be_read_at_one_sitting() -> None:
    assert [f"{name}: {lines(path)}" for name, path in modules().items() if lines(path) > FILE] == []


def test_no_class_is_longer_than_its_purpose() -> None:
    found = {
        node.name: size for _, node in classes() if (size := (node.end_lineno or 0) - node.lineno + 1) > CLASS
    }
    assert {name: size for name, size in found.items() if name not in CLASSES_ALLOWED} == {}


def test_no_class_offers_more_than_can_be_remembered() -> None:
    found = {node.name: len(public(node)) for _, node in classes() if len(public(node)) > METHODS}
    assert {name: count for name, count in found.items() if name not in METHODS_ALLOWED} == {}


def test_no_class_is_made_of_too_many_parts() -> None:
    found = {node.name: len(attributes(node)) for _, node in classes() if len(attributes(node)) > ATTRIBUTES}
    assert {name: count for name, count in found.items() if name not in ATTRIBUTES_ALLOWED} == {}


def test_no_folder_has_too_many_rooms() -> None:
    folders = {path.parent for path in modules().values()}
    rooms = {
        folder: len([path for path in folder.iterdir() if path.name not in ("__init__.py", "__pycache__")])
        for folder in folders
    }
    assert {
        name: count
        for folder, count in rooms.items()
        if count > FOLDER and (name := str(folder.relative_to(PACKAGE))) not in FOLDERS_ALLOWED
    } == {}


TESTS_ALLOWED: dict[str, str] = {"tests/core/engines/dialogue.py": "one way of speaking with all engines"}
"""Files of tests with more lines, and why."""


def test_no_file_of_tests_is_too_long() -> None:
    sizes = {str(path.relative_to(ROOT)): lines(path) for path in (ROOT / "tests").rglob("*.py")}
    long = {name for name, size in sizes.items() if size > TEST_FILE}
    assert sorted(long - set(TESTS_ALLOWED)) == []
    assert sorted(set(TESTS_ALLOWED) - long) == []


def test_no_exception_is_left_that_is_not_needed() -> None:
    sizes = {node.name: (node.end_lineno or 0) - node.lineno + 1 for _, node in classes()}
    methods = {node.name: len(public(node)) for _, node in classes()}
    made = {node.name: len(attributes(node)) for _, node in classes()}
    needless = [name for name in CLASSES_ALLOWED if sizes.get(name, 0) <= CLASS]
    needless += [name for name in METHODS_ALLOWED if methods.get(name, 0) <= METHODS]
    needless += [name for name in ATTRIBUTES_ALLOWED if made.get(name, 0) <= ATTRIBUTES]
    assert needless == []


def lines(path: object) -> int:
    return len(open(str(path), encoding="utf-8").readlines())


def public(node: ast.ClassDef) -> list[str]:
    """The names of the public methods of a class."""
    functions = (member for member in node.body if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef))
    return [member.name for member in functions if not member.name.startswith("_")]


def attributes(node: ast.ClassDef) -> set[str]:
    """The attributes that the `__init__` of a class sets."""
    made = (
        member for member in node.body if isinstance(member, ast.FunctionDef) and member.name == "__init__"
    )
    return {
        target.attr
        for init in made
        for target in ast.walk(init)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }

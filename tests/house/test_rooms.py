"""Imports go inwards alone, the core touches nothing, and a kind is a folder and a row.

Imports within functions and those for the type checker alone count like any other.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.core.kinds import KINDS
from tests.house.code import ENTRANCES, circles, imports, module_of, modules, nodes, statements
from tests.house.rooms import ORDER, PURE_MODULES, is_pure, kind_of, rank, room_of

STANDARD = """__future__ abc array ast base64 binascii bisect codecs collections contextlib dataclasses
    difflib enum functools hashlib heapq html importlib inspect itertools keyword math operator re
    reprlib string struct textwrap tomllib types typing unicodedata weakref xml"""
INSTALLED = "cssselect elementpath jmespath lxml msgspec re2"
PURE = frozenset(f"{STANDARD} {INSTALLED}".split())
"""The packages that pure rooms may import: nothing there has a clock, chance, files, threads or sockets."""
UNSAFE = frozenset({"pickle", "cPickle", "cloudpickle", "dill", "shelve", "jsonpickle"})
"""Modules by which bytes become anything."""

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
"""Names they may take from packages that are not pure as a whole."""

WORLDLY = frozenset({"open", "input", "print", "eval", "exec", "compile", "__import__", "breakpoint"})
WORLDLY_METHODS = frozenset(
    {"open", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "now", "today"}
)
"""Calls that reach outside, or run what stands in a value."""

FIXED: frozenset[str] = frozenset({"narval.kinds", "narval.trials"}) | {row.folder for row in KINDS.values()}
"""Packages whose `__init__` has a docstring alone."""


# --- the order --------------------------------------------------------------------------------------------


def test_every_module_is_in_a_room() -> None:
    assert [name for name in modules() if not room_of(name) and name not in FIXED] == []
    assert {room_of(name) for name in modules()} - {""} == {name for names in ORDER for name in names}


def test_imports_are_absolute() -> None:
    relative = [
        f"{name}:{node.lineno}"
        for name, path in modules().items()
        for node in nodes(path, ast.ImportFrom)
        if node.level
    ]
    assert relative == []


def test_imports_go_inwards() -> None:
    assert [str(each) for each in imports() if rank(each.imported) > rank(each.importer)] == []


def test_a_kind_is_imported_in_its_own_folder_alone() -> None:
    wrong = [
        str(each)
        for each in imports()
        if (kind := kind_of(each.imported))
        and kind != kind_of(each.importer)
        and each.importer not in MEETING.get(kind, ())
    ]
    assert wrong == []


MEETING: dict[str, dict[str, str]] = {
    "work": {
        "narval.people.files": "people answer work by files",
        "narval.people.mail.channel": "people are asked by mail, and answer",
        "narval.people.mail.answers": "people answer by mail",
        "narval.people.chat.notices": "people are asked by chat",
        "narval.people.chat.outbox": "what could hide or reorder a text is shown as in work",
        "narval.surfaces.chat.forms": "people fill in the fields of work by chat",
        "narval.ask.attention.attention": "what people have not answered needs attention",
        "narval.ask.runs.retrying": "an item is begun anew by whoever may administer it",
        "narval.ask.daemon.requests": "a daemon that stops says what nobody has answered",
        "narval.surfaces.cli.daemon.run": "a daemon that ends says what nobody has answered",
        "narval.surfaces.cli.demo": "the demo asks whoever looks at it",
    },
    **{
        kind: {"narval.surfaces.python.agent": "its methods have types, for the type checker alone"}
        for kind in ("process", "task")
    },
}
MEETING["work"] |= {"narval.surfaces.python.agent": "its methods have types, for the type checker alone"}
"""The modules that import a kind from outside, and why; nothing else of `work` can be taken away."""


def test_no_module_imports_itself_by_way_of_others() -> None:
    needs: dict[str, set[str]] = {}
    for each in imports():
        needs.setdefault(each.importer, set()).add(each.imported)
    assert list(circles(needs)) == []


def test_no_room_takes_names_that_the_package_offers_to_embedders() -> None:
    # Those names come from every room: importing one of them from further in would go outwards unseen.
    taken = {
        name for path in modules().values() for name, _, _ in statements(path) if module_of(name) in ENTRANCES
    }
    assert taken - {"narval", "narval.__version__"} == set()


# --- the pure rooms ---------------------------------------------------------------------------------------


def test_pure_rooms_have_no_clock_chance_files_threads_sockets_or_logging() -> None:
    wrong = [
        f"{name}:{line} imports {imported}"
        for name, path in pure()
        for imported, line in foreign(path)
        if imported.partition(".")[0] not in PURE and imported not in PURE_NAMES
    ]
    assert wrong == []


def test_pure_rooms_open_print_and_evaluate_nothing() -> None:
    wrong = [
        f"{name}:{line} calls {called}"
        for name, path in pure()
        for called, line in calls(path)
        if called in WORLDLY or called == "etree.parse" or called.partition(".")[2] in WORLDLY_METHODS
    ]
    assert wrong == []


def test_importing_the_pure_rooms_loads_no_other() -> None:
    # Imports by name are seen by nothing but this.
    script = (
        "import importlib, sys\n"
        f"for name in {' '.join(name for name, _ in pure())!r}.split(): importlib.import_module(name)\n"
        "print(*(name for name in sys.modules if name.startswith('narval.')))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    around = {each.rsplit(".", depth)[0] for each in PURE_MODULES for depth in (1, 2)}
    loaded = set(done.stdout.split()) - around
    assert [name for name in loaded if room_of(name) and not is_pure(name)] == []


# --- the checks see what they should ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import time", ["time"]),
        ("import os.path", ["os.path"]),
        ("from threading import Lock", ["threading.Lock"]),
        ("def f():\n    from random import random", ["random.random"]),
        ("if TYPE_CHECKING:\n    import logging", []),
        ("from narval import memory", []),
    ],
)
def test_imports_are_seen_wherever_they_stand(tmp_path: Path, text: str, names: list[str]) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    assert [name for name, _ in foreign(path)] == names


def test_calls_are_seen_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("def f():\n    return [each.open() for each in g(eval(x)).read_text()]")
    assert {name for name, _ in calls(path)} == {"each.open", ".read_text", "g", "eval"}


def test_a_circle_is_seen() -> None:
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()})) == [["a", "b", "c", "a"]]


# --- reading ----------------------------------------------------------------------------------------------


def pure() -> Iterator[tuple[str, Path]]:
    return ((name, path) for name, path in modules().items() if is_pure(name))


def foreign(path: Path) -> Iterator[tuple[str, int]]:
    """The imports of a module that are not narval's and are there when it runs."""
    for name, line, typing_only in statements(path):
        if name.partition(".")[0] != "narval" and not typing_only:
            yield name, line


def calls(path: Path) -> Iterator[tuple[str, int]]:
    """The calls of a module: `name`, or `name.method`, or `.method` of a value without a name."""
    for node in nodes(path, ast.Call):
        if isinstance(node.func, ast.Name):
            yield node.func.id, node.lineno
        elif isinstance(node.func, ast.Attribute):
            of = node.func.value
            yield f"{of.id if isinstance(of, ast.Name) else ''}.{node.func.attr}", node.lineno


def test_G66_nothing_of_narval_pickles_or_unpickles() -> None:
    imports = {
        (name, statement[0].partition(".")[0])
        for name, path in modules().items()
        for statement in statements(path)
    }
    assert len(imports) > 1000
    assert sorted(row for row in imports if row[1] in UNSAFE) == []

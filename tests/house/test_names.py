"""One word, one thing: a table has a name of its own, a part is altered where it is made."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.house.code import docstrings, imports, modules, nodes, read
from tests.house.rooms import kind_of, room_of
from tests.places import ROOT

ALTERED_ELSEWHERE: dict[str, str] = {
    "narval.surfaces.cli.command directory": "an option that all commands have fills their session",
    "narval.surfaces.cli.command as_json": "an option that all commands have fills their session",
    "narval.core.patterns.metered evaluate": "elementpath's tokens are made to count their work",
    "narval.core.patterns.metered select": "elementpath's tokens are made to count their work",
    "narval.core.patterns.metered iter_comparison_data": "tokens are made to count their work",
}
"""Attributes that modules set though another one declares them, `module attribute`, and why."""


def test_a_table_has_a_name_of_its_own() -> None:
    # The rooms of kinds teach each other: the same table has the same name in every kind.
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module, path in modules().items():
        for name in tables(path):
            places[name, room_of(module) if kind_of(module) else module].append(module)
    names = Counter(name for name, _ in places)
    assert {name: count for name, count in names.items() if count > 1} == {}


def test_a_part_is_altered_where_it_is_made() -> None:
    wrong = [
        f"{module}:{line} .{attribute}"
        for module in modules()
        for attribute, line in set_from_outside(module)
        if f"{module} {attribute}" not in ALTERED_ELSEWHERE
    ]
    assert wrong == []


def test_no_module_imports_a_private_name() -> None:
    wrong = [str(found) for found in imports() if found.name.rpartition(".")[2].startswith("_")]
    assert [text for text in wrong if "__version__" not in text] == []


TESTS = sorted((ROOT / "tests").rglob("*.py"))


def test_tests_touch_no_private_name_of_narval() -> None:
    mine = {name for path in TESTS for name in defined(path)}
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for path in TESTS
        for node in nodes(path, ast.Attribute)
        if node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in mine
        and node.attr not in NAMED_TUPLES
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls", "sys", "os"))
    ]
    assert wrong == []


NAMED_TUPLES = frozenset({"_replace", "_asdict", "_make", "_fields", "_Element"})
"""Names that begin with a line in the libraries, and are public all the same."""


# --- words ------------------------------------------------------------------------------------------------


def test_a_docstring_opens_with_a_noun_or_an_imperative() -> None:
    wrong = [
        f"{module}:{line}: {text.strip().splitlines()[0][:60]}"
        for module, path in modules().items()
        for line, text in docstrings(path)
        if OPENERS.match(text.strip())
    ]
    assert wrong == []


OPENERS = re.compile(
    r"(What|Who|Whoever|Whatever|Whether|How|Where|When|Nobody|Somebody|Those|They|It|Says|Has|Is|Does)\b"
)


def test_cancelled_is_spelled_in_one_way() -> None:
    wrong = [
        f"{name}: {found.group(0)}"
        for name, path in modules().items()
        for found in re.finditer(r"\b\w*[Cc]ancel(?:ed|ing)\b", read(path).text)
        if found.group(0) != "ProcessCanceled"  # PROCESS_CANCELED is an event's name (section 3)
    ]
    assert wrong == []


# --- reading ----------------------------------------------------------------------------------------------


def tables(path: Path) -> Iterator[str]:
    """The names of the public tables that stand at the level of a module: mappings, tuples and sets."""
    for node in read(path).tree.body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        value = getattr(node, "value", None)
        if isinstance(value, ast.Dict | ast.DictComp | ast.Set):
            names = (target.id for target in targets if isinstance(target, ast.Name))
            yield from (name for name in names if name.isupper() and not name.startswith("_"))


def set_from_outside(module: str) -> Iterator[tuple[str, int]]:
    """The attributes that a module sets, but of `self`, and that other modules of the package declare.

    The rooms of one engine count as one: its facts alter its state.
    """
    parts = module.split(".")
    room = ".".join(parts[:4]) if kind_of(module) and parts[3:4] == ["engine"] else module
    own = {
        name
        for other in modules()
        if other == room or other.startswith(f"{room}.")
        for name in declares(other)
    }
    others = all_declared() - own - OF_LIBRARIES
    for node in nodes(modules()[module], ast.Attribute):
        if is_set(node, of_self=False) and node.attr in others:
            yield node.attr, node.lineno


OF_LIBRARIES = frozenset({"text", "tail", "tag", "value"})
"""Attributes that trees of lxml and structures of ctypes have too."""


@cache
def all_declared() -> frozenset[str]:
    """The attributes that any module of the package declares."""
    return frozenset().union(*map(declares, modules()))


@cache
def declares(module: str) -> frozenset[str]:
    """The attributes that the classes of a module declare, or set of themselves."""
    names = set()
    path = modules()[module]
    for node in nodes(path, ast.ClassDef):
        for member in node.body:
            if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                names.add(member.target.id)
    names |= {node.attr for node in nodes(path, ast.Attribute) if is_set(node, of_self=True)}
    return frozenset(names)


def is_set(node: ast.Attribute, *, of_self: bool) -> bool:
    """Test whether a node sets an attribute of `self`, or of anything else."""
    if not isinstance(node.ctx, ast.Store):
        return False
    return of_self == (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))


def defined(path: Path) -> Iterator[str]:
    """The names that a file of tests defines itself."""
    for node in nodes(path, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        yield node.name
    for node in nodes(path, ast.Attribute):
        if is_set(node, of_self=True):
            yield node.attr
    for node in nodes(path, ast.AnnAssign):
        if isinstance(node.target, ast.Name):
            yield node.target.id

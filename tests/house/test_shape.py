"""The shape of code: what breaks a rule stands in `exceptions.toml` with its reason, as long as it does."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import narval
from narval import api
from tests.house.code import classes, functions, imports, modules, nodes, read, statements
from tests.places import ROOT

EXCEPTIONS = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text("utf-8"))
"""For each rule the places that may break it, and why."""

THIN, FIELDS, POSITIONS = 60, 8, 6
"""Lines of a module that has one importer, in its own folder; fields of a struct that need no line each;
fields of a struct that may be filled by position from a sequence.
"""

FIXED_ROOMS = frozenset({"changes", "checks", "engine", "explain", "graph", "parser", "state", "structure"})
"""The rooms that have the same name in every kind, however little is in them."""

VAGUE = frozenset({"found", "known", "given", "wanted", "told", "shown", "kept"})
MOST_VAGUE, MOST_CITED = 85, 960
"""Locals named for no thing, and citations of demands: with every change there are fewer."""


# --- the rules --------------------------------------------------------------------------------------------


def one_implementation() -> Iterator[str]:
    """The protocols that fewer than two classes of the package keep."""
    for module, node in classes():
        if "Protocol" in bases(node):
            members = {name for name in own_members(node) if not name.startswith("__")}
            keepers = [
                other
                for _, other in classes()
                if other is not node and "Protocol" not in bases(other) and members <= all_members(other.name)
            ]
            if members and len(keepers) < 2:
                yield f"{module}.{node.name}"


def late_names() -> Iterator[str]:
    """The lambdas and inner functions over a name that is bound below them in the function around."""
    for module, path in modules().items():
        for function in functions(path):
            yield from (f"{module}.{function.name}: {name}" for name in bound_later(function))


def thin_modules() -> Iterator[str]:
    """The small modules with one importer, in their own folder."""
    importers: dict[str, set[str]] = defaultdict(set)
    for each in imports():
        importers[each.imported].add(each.importer)
    for module, path in modules().items():
        room = module.rpartition(".")[2]
        if path.name == "__init__.py" or (module.startswith("narval.kinds.") and room in FIXED_ROOMS):
            continue
        if read(path).text.count("\n") < THIN and len(importers[module]) == 1:
            (importer,) = importers[module]
            if modules()[importer].parent == path.parent:
                yield module


def undescribed_fields() -> Iterator[str]:
    """The large structs some of whose fields have no line that says what they are."""
    for module, node in structs():
        members = node.body
        fields = [at for at, member in enumerate(members) if is_field(member)]
        if len(fields) > FIELDS and any(
            at + 1 == len(members) or not isinstance(members[at + 1], ast.Expr) for at in fields
        ):
            yield f"{module}.{node.name}"


def splats() -> Iterator[str]:
    """The large structs that are filled from a sequence, by position."""
    sizes = {node.name: sum(map(is_field, node.body)) for _, node in structs()}
    for module, path in modules().items():
        for call in nodes(path, ast.Call):
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            if sizes.get(name, 0) > POSITIONS and any(isinstance(value, ast.Starred) for value in call.args):
                yield f"{module}: {name}"


def inner_imports() -> Iterator[str]:
    """What shipped modules import of narval beside the names of `narval` and `narval.api`."""
    offered = {
        "narval",
        *(f"{package.__name__}.{name}" for package in (narval, api) for name in dir(package)),
    }
    for path in sorted((ROOT / "modules").rglob("*.py")):
        for name, _, _ in statements(path):
            if name.partition(".")[0] == "narval" and name not in offered:
                yield f"{path.relative_to(ROOT)}: {name}"


RULES = {
    "one implementation": one_implementation,
    "late names": late_names,
    "thin modules": thin_modules,
    "undescribed fields": undescribed_fields,
    "splats": splats,
    "inner imports": inner_imports,
}


@pytest.mark.parametrize("rule", RULES)
def test_what_breaks_a_rule_has_its_reason(rule: str) -> None:
    breaking, allowed = set(RULES[rule]()), EXCEPTIONS.get(rule, {})
    assert sorted(breaking - set(allowed)) == [], RULES[rule].__doc__
    assert sorted(set(allowed) - breaking) == [], "these exceptions are needed no more"
    assert all(allowed.values())


def test_few_methods_only_forward() -> None:
    methods = [
        method
        for _, node in classes()
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert sum(map(only_forwards, methods)) < len(methods) * 2 // 100


def test_locals_are_named_for_what_they_hold() -> None:
    count = sum(
        node.id in VAGUE
        for path in modules().values()
        for node in nodes(path, ast.Name)
        if isinstance(node.ctx, ast.Store)
    ) + sum(node.arg in VAGUE for path in modules().values() for node in nodes(path, ast.arg))
    assert count <= MOST_VAGUE


def test_demands_are_cited_less_and_less() -> None:
    cited = re.compile(r"(?<![\w/.@#-])(?:N|A|KA|K|P|TA|T|M|G)[1-9]\d{0,2}(?![\w.@])")
    assert sum(len(cited.findall(read(path).text)) for path in modules().values()) <= MOST_CITED


def test_one_cursor_reads_all_grammars() -> None:
    scanners = [
        module
        for module, path in modules().items()
        for node in nodes(path, ast.Attribute)
        if node.attr == "lastgroup"
    ]
    assert scanners == ["narval.core.source.tokens"], "a text is taken apart there alone"


# --- the checks see what they should ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f():\n    late = lambda: host.go()\n    host = 1", ["host"]),
        ("def f():\n    host = 1\n    return lambda: host", []),
        ("def f():\n    def g(): return host\n    host = g", ["host"]),
        ("def f(host):\n    return lambda: host", []),
        ("def f():\n    return lambda host: host", []),
    ],
)
def test_late_names_are_seen(text: str, names: list[str]) -> None:
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    assert list(bound_later(function)) == names


# --- reading ----------------------------------------------------------------------------------------------


def bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).partition("[")[0] for base in node.bases]


@cache
def by_name() -> dict[str, ast.ClassDef]:
    return {node.name: node for _, node in classes()}


@cache
def own_members(node: ast.ClassDef) -> frozenset[str]:
    """The names that a class declares, defines, or sets of itself."""
    names = set()
    for member in node.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(member.name)
            names |= {
                target.attr
                for target in ast.walk(member)
                if isinstance(target, ast.Attribute)
                and isinstance(target.ctx, ast.Store)
                and isinstance(target.value, ast.Name)
                and target.value.id == "self"
            }
        elif isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            names.add(member.target.id)
        elif isinstance(member, ast.Assign):
            names |= {target.id for target in member.targets if isinstance(target, ast.Name)}
    return frozenset(names)


@cache
def all_members(name: str) -> frozenset[str]:
    """The members of a class and of those of the package that it extends."""
    node = by_name().get(name)
    if node is None:
        return frozenset()
    return own_members(node).union(*(all_members(base) for base in bases(node) if base != name))


def structs() -> Iterator[tuple[str, ast.ClassDef]]:
    """The classes that are made of fields."""
    for module, node in classes():
        is_struct = any(
            base in ("msgspec.Struct", "Struct", "NamedTuple", "RunState", "RunChange")
            or base.endswith("Change")
            for base in bases(node)
        )
        if is_struct or any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
            yield module, node


def is_field(member: ast.stmt) -> bool:
    return isinstance(member, ast.AnnAssign) and "ClassVar" not in ast.unparse(member.annotation)


def bound_later(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The names that inner functions read and that are bound below these alone."""
    bindings: dict[str, list[int]] = defaultdict(list)
    inner: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda] = []
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        bindings[argument.arg].append(function.lineno)
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inner.append(node)
            if not isinstance(node, ast.Lambda):
                bindings[node.name].append(node.lineno)
            continue
        if isinstance(node, ast.ClassDef):
            continue
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            inner += [each for each in ast.walk(node) if isinstance(each, ast.Lambda)]
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bindings[node.id].append(node.lineno)
        stack += ast.iter_child_nodes(node)
    for each in sorted(inner, key=lambda node: node.lineno):
        names = [node for node in ast.walk(each) if isinstance(node, ast.Name)]
        own = {node.arg for node in ast.walk(each.args) if isinstance(node, ast.arg)}
        own |= {node.id for node in names if isinstance(node.ctx, ast.Store)} | {getattr(each, "name", "")}
        for name in sorted({node.id for node in names} - own):
            if bindings[name] and min(bindings[name]) > (each.end_lineno or 0):
                yield name


def only_forwards(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True of a method that does nothing but give its arguments, as they are, to a part of itself."""
    body = method.body[1:] if ast.get_docstring(method) is not None else method.body
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value
    call = call.value if isinstance(call, ast.Await) else call
    return (
        isinstance(call, ast.Call)
        and ast.unparse(call.func).startswith("self.")
        and ast.unparse(call.func).count(".") == 2
        and [ast.unparse(argument) for argument in call.args]
        == [argument.arg for argument in method.args.args[1:]]
        and not call.keywords
    )

"""The reference of operations: `python -m tests.house.operations_page` writes reference/operations.md."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from textwrap import dedent
from typing import Any

import click

from narval.ask.operations import OPERATIONS
from narval.ask.registry import Operation
from narval.surfaces.cli import COMMANDS
from narval.surfaces.cli.command import Command, CommandGroup
from narval.surfaces.python.agent import Agent, methods_of_kinds
from tests.house.code import read
from tests.house.pages.tables import without_citations
from tests.places import ROOT

PAGE = ROOT / "docs" / "reference" / "operations.md"

WIDTH = 80
"""The most characters of arguments on one line."""

HEAD = """# Operations

Made from the table of operations by `python -m tests.house.pages`; a test compares. An operation is
a request to a daemon. Every surface has it: the [command line](cli.md), a program that opens a home
(`with narval.open(home) as agent`), and any program that asks a daemon through its
[control socket](cli.md#the-control-socket).

- **Arguments** go by name: `agent.ask("runs", state="failed", limit=10)` in Python,
  `Client(path).ask("runs", state="failed", limit=10)` through the socket, where the frame is
  `[0, id, "runs", {"state": "failed", "limit": 10}]`. One that has a default may be left out. An argument
  that is unknown, missing or of another type is refused, and the error says what was expected.
- **Answers** are plain data in [the forms that `--json` prints](cli.md#json-forms), of commands and of
  `agent.ask`. A dedicated method may return Python objects instead.
- **Scopes.** `read` leaves the home as it is, `write` changes it, `people` is for acts of people on their
  own work. A connection may give up the permission for all scopes but one, and a request may be made in a
  person's name.
- **Listings.** Without `limit` a listing has all, oldest first. With `limit` it has that many of the newest,
  newest first. `before` leaves out all from that eid on, so the next page begins at the last eid of a page.
  A long listing lets other work go on meanwhile. Nothing is in it twice, and each row is as it is when the
  listing comes to it; without `limit`, what comes after it has begun is left out.
"""


def page() -> str:
    """The text of the page."""
    parts = [HEAD, "\n| operation | scope | command | Python |\n|---|---|---|---|\n"]
    commands, methods = by_operation(of_commands()), by_operation(of_methods())
    for name, operation in OPERATIONS.items():
        reached = ", ".join(f"`narval {each}`" for each in commands[name])
        called = ", ".join(f"`agent.{each}()`" for each in methods[name]) or f'`agent.ask("{name}")`'
        parts.append(f"| [`{name}`](#{name}) | {operation.scope} | {reached} | {called} |\n")
    return "".join([*parts, *map(section, OPERATIONS.values())])


def section(operation: Operation[..., Any]) -> str:
    """An operation: its arguments with types and defaults, and its docstring."""
    arguments = [argument(parameter) for parameter in operation.parameters.values()]
    inside = ", ".join(arguments)
    if len(inside) > WIDTH:
        inside = "\n" + "".join(f"    {each},\n" for each in arguments)
    gives = inspect.signature(operation).return_annotation
    text = "\n\n".join(
        " ".join(paragraph.split()) for paragraph in without_citations(operation.doc).split("\n\n")
    )
    return f"\n## {operation.name}\n\n```python\n{operation.name}({inside}) -> {gives}\n```\n\n{text}\n"


def argument(parameter: inspect.Parameter) -> str:
    """A parameter as it is declared: name, type, default."""
    declared = f"{parameter.name}: {parameter.annotation}"
    return declared if parameter.default is parameter.empty else f"{declared} = {parameter.default!r}"


# --- who reaches an operation -----------------------------------------------------------------------------


def by_operation(reaching: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """The names of commands or methods by that of the operation they ask."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, operation in reaching:
        if operation in OPERATIONS and name not in found[operation]:
            found[operation].append(name)
    return found


def of_commands() -> Iterator[tuple[str, str]]:
    """Each command, with the operation of which it gives the answer, or those that it names in an `ask`."""
    for name, command in all_commands():
        if command.operation:
            yield name, command.operation
            continue
        function = inspect.unwrap(callback_of(command))
        for node in nodes_of(function.__name__, read(file_of(function.__module__)).tree, set()):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "ask"
            ):
                for given in node.args[:2]:
                    for part in ast.walk(given):
                        if isinstance(part, ast.Constant):
                            yield name, str(part.value)


def all_commands() -> Iterator[tuple[str, Command | CommandGroup]]:
    """Every command by its name, those below others among them."""
    for name, command in COMMANDS.items():
        yield name, command
        for below in command.commands.values() if isinstance(command, CommandGroup) else ():
            assert isinstance(below, Command)
            yield f"{name} {below.name}", below


def callback_of(command: click.Command) -> Callable[..., Any]:
    assert command.callback is not None
    return command.callback


def nodes_of(name: str, module: ast.Module, seen: set[str]) -> Iterator[ast.AST]:
    """The nodes of a function, and of those that it names, no other command."""
    seen.add(name)
    (function,) = (each for each in functions(module) if each.name == name)
    others = {each.name for each in functions(module)} - set(COMMANDS)
    for node in ast.walk(function):
        yield node
        if isinstance(node, ast.Name) and node.id in others - seen:
            yield from nodes_of(node.id, module, seen)


def functions(module: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def of_methods() -> Iterator[tuple[str, str]]:
    """Each method of an agent, with the operations that it forwards to, calls, or has the name of."""
    members = [inspect.getmembers(each, inspect.isfunction) for each in (Agent, *methods_of_kinds())]
    for name, method in sorted(chain.from_iterable(members)):
        if name.startswith("_"):
            continue
        forwarded = getattr(method, "__wrapped__", None)
        if isinstance(forwarded, Operation):
            yield name, forwarded.name
            continue
        yield name, name
        names = sys.modules[method.__module__].__dict__
        for node in ast.walk(ast.parse(dedent(inspect.getsource(method)))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                called = getattr(names.get(node.value.id), node.attr, None)
                if isinstance(called, Operation):
                    yield name, called.name


def file_of(module: str) -> Path:
    path = sys.modules[module].__file__
    assert path is not None
    return Path(path)


if __name__ == "__main__":
    from tests.house.pages.all import write

    write()

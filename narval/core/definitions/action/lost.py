"""Mistakes in modules that the import does not show: lost declarations, calls that are not awaited."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from narval.core.definitions.action.definition import action
from narval.core.errors import Fault
from narval.core.source.text import Source

_DEFINED = re.compile(r"^(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_INDENTED = re.compile(r"^[ \t]+@[\w.]*action\b", re.MULTILINE)
_AWAITABLE = re.compile(r"^[ \t]+(?:\w+\.)*(?:sleep|fetch|send_mail|send_by_chat)\(", re.MULTILINE)
"""The statements that may call a coroutine of narval without awaiting it."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def lost_actions(module: ModuleType, source: Source) -> Iterator[Fault]:
    """The faults of methods declared as actions, and of actions whose name is redefined below."""
    names = _DEFINED.findall(source.text)
    if len(names) == len(set(names)) and _INDENTED.search(source.text) is None:
        return  # most files: no need to parse them a second time
    tree = ast.parse(source.text)
    last = {each.name: each for each in tree.body if isinstance(each, _FUNCTIONS)}
    for function in tree.body:
        if isinstance(function, _FUNCTIONS) and last[function.name] is not function:
            again = f"{function.name!r} is defined again in line {last[function.name].lineno}"
            yield from _fault_if_action(module, source, function, f"{again}; give one of them another name")
    for outer in ast.walk(tree):
        if isinstance(outer, ast.ClassDef):
            for method in outer.body:
                if isinstance(method, _FUNCTIONS):
                    why = f"expected a function of the module, found the method {outer.name}.{method.name}"
                    yield from _fault_if_action(module, source, method, why)


def unawaited_calls(module: ModuleType, source: Source) -> Iterator[Fault]:
    """The faults of statements that call a coroutine of narval without await, which does nothing."""
    if _AWAITABLE.search(source.text) is None:
        return
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name, function = ast.unparse(node.value.func), _named_by(module, node.value)
            if inspect.iscoroutinefunction(function) and function.__module__.partition(".")[0] == "narval":
                why = f"{name}() does nothing without await; write `await {name}(…)`, in an async def"
                yield source.fault(why, node.lineno, node.col_offset + 1)


def _fault_if_action(module: ModuleType, source: Source, function: _Function, why: str) -> Iterator[Fault]:
    if any(_named_by(module, written) is action for written in function.decorator_list):
        yield source.fault(f"@action: {why}", function.lineno, function.col_offset + 1)


def _named_by(module: ModuleType, named: ast.expr) -> Any:
    """The function of a module that is named or called, as `action` or `narval.action`; None if none is."""
    written = named.func if isinstance(named, ast.Call) else named
    first, *more = ast.unparse(written).split(".")
    value: Any = vars(module).get(first)
    for name in more:
        value = getattr(value, name, None)
    return value

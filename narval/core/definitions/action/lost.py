"""Lost declarations: functions that `@action` declares in vain, which the imported module does not show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from narval.core.definitions.action.definition import action
from narval.core.errors import Fault
from narval.core.source.text import Source

_DEFINED = re.compile(r"^(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_INDENTED = re.compile(r"^[ \t]+@[\w.]*action\b", re.MULTILINE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def lost_actions(module: ModuleType, source: Source) -> Iterator[Fault]:
    """The faults of methods declared as actions, and of actions whose name is defined again below."""
    names = _DEFINED.findall(source.text)
    if len(names) == len(set(names)) and _INDENTED.search(source.text) is None:
        return  # most files: they are not parsed a second time
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


def _fault_if_action(module: ModuleType, source: Source, function: _Function, why: str) -> Iterator[Fault]:
    if any(_named_by(module, written) is action for written in function.decorator_list):
        yield source.fault(f"@action: {why}", function.lineno, function.col_offset + 1)


def _named_by(module: ModuleType, decorator: ast.expr) -> Any:
    """The function of a module that decorates, such as `action`, or `narval.action` where that is called."""
    written = decorator.func if isinstance(decorator, ast.Call) else decorator
    first, *more = ast.unparse(written).split(".")
    value: Any = vars(module).get(first)
    for name in more:
        value = getattr(value, name, None)
    return value

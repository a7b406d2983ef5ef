"""What an operation takes: its parameters by name and type, and whether given arguments are such."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from narval.errors import RequestError


class Operation(NamedTuple):
    """One thing that may be asked: its name, what it does, and its parameters with their types."""

    name: str
    doc: str
    parameters: Mapping[str, inspect.Parameter]
    types: Mapping[str, Any]


def described(method: Callable[..., Any]) -> Operation:
    """The operation that a method does."""
    parameters = dict(list(inspect.signature(method).parameters.items())[1:])
    hints = typing.get_type_hints(method)
    doc = inspect.getdoc(method) or ""
    return Operation(method.__name__, doc, parameters, {key: hints[key] for key in parameters})


def check(operation: Operation, arguments: Mapping[str, Any]) -> None:
    """Make sure that an operation takes such arguments. Raises RequestError."""
    for name in arguments:
        if name not in operation.parameters:
            known = ", ".join(operation.parameters) or "none"
            raise RequestError(f"{operation.name} takes no argument {name!r}; it takes {known}")
    for name, parameter in operation.parameters.items():
        if name not in arguments:
            if parameter.default is inspect.Parameter.empty:
                raise RequestError(f"{operation.name} needs the argument {name!r}")
        elif not _is_a(arguments[name], operation.types[name]):
            wanted = operation.types[name]
            raise RequestError(
                f"{operation.name}: expected {name} to be {wanted}, got {arguments[name]!r:.80}"
            )


def _is_a(value: Any, wanted: Any) -> bool:
    if wanted is Any:
        return True
    if typing.get_origin(wanted) in (types.UnionType, typing.Union):
        return any(_is_a(value, each) for each in typing.get_args(wanted))
    if typing.get_origin(wanted) is list:
        (item,) = typing.get_args(wanted)
        return isinstance(value, list) and all(_is_a(each, item) for each in value)
    if typing.get_origin(wanted) is dict:
        of_keys, of_values = typing.get_args(wanted)
        return isinstance(value, dict) and all(
            _is_a(key, of_keys) and _is_a(each, of_values) for key, each in value.items()
        )
    if wanted is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if wanted is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, wanted)

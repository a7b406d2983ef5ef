"""`@operation` and `@query`: functions that may be asked for by name, their arguments checked."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cached_property, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec

from narval.errors import RequestError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Operation(Generic[Parameters, Result]):
    """A function of a daemon and plain keyword arguments, called as it is, or by name through `invoke`.

    `reads` tells that it leaves the home as it is.
    """

    def __init__(self, function: Callable[Parameters, Result], *, reads: bool = False) -> None:
        self._function, self.reads = function, reads
        self.name = function.__name__
        update_wrapper(self, function)

    def __call__(self, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        return self._function(*arguments, **named)

    @property
    def doc(self) -> str:
        """The docstring of the function."""
        return inspect.getdoc(self._function) or ""

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters by name, without the daemon."""
        return dict(list(inspect.signature(self._function).parameters.items())[1:])

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """The types of the parameters by name."""
        hints = typing.get_type_hints(self._function)
        return {name: hints[name] for name in self.parameters}

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise RequestError unless these arguments, without the daemon, fit the parameters."""
        for name in arguments:
            if name not in self.parameters:
                known = ", ".join(self.parameters) or "none"
                raise RequestError(f"{self.name} takes no argument {name!r}; it takes {known}")
        for name, parameter in self.parameters.items():
            if name not in arguments:
                if parameter.default is inspect.Parameter.empty:
                    raise RequestError(f"{self.name} needs the argument {name!r}")
            elif not _fits(given := arguments[name], wanted := self.types[name]):
                raise RequestError(f"{self.name}: expected {name} to be {wanted}, got {given!r:.80}")


def operation(function: Callable[Parameters, Result]) -> Operation[Parameters, Result]:
    """Mark a function as an operation; its first parameter is the daemon."""
    return Operation(function)


def query(function: Callable[Parameters, Result]) -> Operation[Parameters, Result]:
    """Mark a function as an operation that leaves the home as it is, and may be asked of a copy."""
    return Operation(function, reads=True)


def _fits(value: Any, wanted: Any) -> bool:
    """True if a value is of a type, without any conversion but of a whole number to a float."""
    try:
        msgspec.convert(value, wanted, builtin_types=(bytes,))
    except msgspec.ValidationError:
        return False
    return True

"""`@operation`: functions that can be asked by name, with a scope and checked arguments."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cached_property, update_wrapper
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Generic, ParamSpec, TypeVar

import msgspec

from narval.ask.asker import Scope
from narval.core.errors import RequestError
from narval.store.page import RunsPage

ASKER = "asker"
"""The parameter that callers do not pass: the asker."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Form = dict[str, Any]
"""An answer, or a part of one: plain data with stable keys."""

LARGEST = 2**53
"""The largest number that every program reads exactly; the numbers of narval stay far below it."""

PageOf = Callable[[Mapping[str, Any]], RunsPage | None]


class Operation(Generic[Parameters, Result]):
    """A function of a daemon and plain keyword arguments, called directly or by name through `invoke`.

    `scope` is the right needed to ask it. `page` maps the arguments to the page of runs that suffices for the
    answer; None if everything remembered is needed.
    """

    def __init__(
        self, function: Callable[Parameters, Result], scope: Scope, page: PageOf = lambda _: None
    ) -> None:
        self._function, self.scope, self.page = function, scope, page
        self.name = function.__name__
        update_wrapper(self, function)

    def __call__(self, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        return self._function(*arguments, **named)

    @property
    def doc(self) -> str:
        """The docstring of the function."""
        return inspect.getdoc(self._function) or ""

    @cached_property
    def wants_asker(self) -> bool:
        """True if the function takes the asker, as a keyword."""
        return ASKER in inspect.signature(self._function).parameters

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The parameters by name, without the daemon and the asker."""
        _, *others = inspect.signature(self._function).parameters.values()
        return {parameter.name: parameter for parameter in others if parameter.name != ASKER}

    @cached_property
    def types(self) -> Mapping[str, Any]:
        """The types of the parameters by name."""
        hints = typing.get_type_hints(self._function)
        return {name: hints[name] for name in self.parameters}

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise RequestError unless these arguments fit the parameters."""
        for name in arguments:
            if name not in self.parameters:
                parameters = ", ".join(self.parameters) or "none"
                raise RequestError(f"{self.name} takes no argument {name!r}; it takes {parameters}")
        for name, parameter in self.parameters.items():
            if name not in arguments:
                if parameter.default is inspect.Parameter.empty:
                    raise RequestError(f"{self.name} needs the argument {name!r}")
            elif not _fits(value := arguments[name], expected := self.types[name]):
                raise RequestError(
                    f"{self.name}: expected {name} to be {_words(expected)}, got {value!r:.80}"
                )
            elif isinstance(value, int | float) and not abs(value) <= LARGEST:  # what is no number, too
                raise RequestError(f"{self.name}: expected {name} to be at most {LARGEST:,}, got {value!r}")


def operation(
    scope: Scope, page: PageOf = lambda _: None
) -> Callable[[Callable[Parameters, Result]], Operation[Parameters, Result]]:
    """Mark a function as an operation that needs a scope; its first parameter is the daemon.

    A keyword parameter `asker` receives the asker, and is not an argument of requests. `page` is for an
    operation that can be answered from a page of runs, and selects it.
    """
    return lambda function: Operation(function, scope, page)


_PLAIN_WORDS: Mapping[Any, tuple[str, str]] = MappingProxyType(
    {
        str: ("a text", "texts"),
        bytes: ("XML in bytes", "XML in bytes"),
        int: ("a whole number", "whole numbers"),
        float: ("a number", "numbers"),
        bool: ("true or false", "true or false"),
        NoneType: ("nothing", "nothing"),
    }
)
"""The words for a value of a type, and for several."""


def _words(expected: Any, *, several: bool = False) -> str:
    """The words for a parameter's type."""
    origin, inner = typing.get_origin(expected), typing.get_args(expected)
    if origin in (typing.Union, UnionType):
        return " or ".join(_words(one, several=several) for one in inner)
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    if origin in (list, tuple):
        return f"{'lists' if several else 'a list'} of {_words(inner[0], several=True)}"
    return _PLAIN_WORDS.get(expected, ("an object", "objects"))[several]


def _fits(value: Any, expected: Any) -> bool:
    """True if a value is of a type, without conversion except of a whole number to a float."""
    try:
        msgspec.convert(value, expected, builtin_types=(bytes,))
        if isinstance(value, str):
            value.encode()
    except (msgspec.ValidationError, UnicodeEncodeError):  # half of a surrogate pair is not text
        return False
    return True

"""Methods that do nothing but ask an operation, made from it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from narval.operations.registry import Operation
from narval.runtime.daemon.daemon import Daemon
from narval.surfaces.python.runner import Runner

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class AtWork(Protocol):
    """A daemon in this program, and the loop on which it works."""

    daemon: Daemon
    runner: Runner


def forward(
    operation: Operation[Concatenate[Daemon, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Parameters], Result]:
    """A method with the parameters, docstring and result of an operation, which it waits for."""

    @wraps(operation)
    def method(self: AtWork, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        return self.runner.run(operation(self.daemon, *arguments, **named))

    return method


def at_once(
    function: Callable[Concatenate[Daemon, Parameters], Result],
) -> Callable[Concatenate[Any, Parameters], Result]:
    """A method with the parameters, docstring and result of a function that waits for nothing."""

    @wraps(function)
    def method(self: AtWork, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        return function(self.daemon, *arguments, **named)

    return method

"""Methods that do nothing but ask an operation, made from it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from narval.ask.asker import Asker
from narval.ask.registry import ASKER, Operation
from narval.daemon.daemon import Daemon
from narval.surfaces.python.runner import Runner

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Asked = Operation[Concatenate[Daemon, Parameters], Coroutine[Any, Any, Result]]


class AtWork(Protocol):
    """A daemon in this program, the loop on which it works, and who asks."""

    daemon: Daemon
    runner: Runner
    asker: Asker


def ask(
    at_work: AtWork,
    operation: Asked[Parameters, Result],
    *arguments: Parameters.args,
    **named: Parameters.kwargs,
) -> Result:
    """The answer of an operation, which is told who asks."""
    if operation.wants_asker:
        named[ASKER] = at_work.asker
    return at_work.runner.run(operation(at_work.daemon, *arguments, **named))


def forward(operation: Asked[Parameters, Result]) -> Callable[Concatenate[Any, Parameters], Result]:
    """A method with the parameters, docstring and result of an operation, which it waits for."""

    @wraps(operation)
    def method(self: AtWork, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        return ask(self, operation, *arguments, **named)

    return method


def at_once(
    function: Callable[Concatenate[Daemon, Parameters], Result],
) -> Callable[Concatenate[Any, Parameters], Result]:
    """A method with the parameters, docstring and result of a function that waits for nothing."""

    @wraps(function)
    def method(self: AtWork, /, *arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        return function(self.daemon, *arguments, **named)

    return method

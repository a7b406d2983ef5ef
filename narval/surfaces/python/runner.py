"""Operations asked from a synchronous program: coroutines run one after another on a separate loop, thousands
a second.

`asyncio.Runner.run` installs and removes its handler of Ctrl-C each time, which takes longer than starting a
run of a recipe. Here that is done once, while the loop is open.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from types import FrameType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from narval.ask.asker import Asker
from narval.ask.registry import ASKER, Operation
from narval.core.errors import RequestError
from narval.daemon.daemon import Daemon

Result = TypeVar("Result")

_at_work: list[asyncio.Task[Any]] = []
"""The tasks running in this program's main thread, innermost last."""
_interrupted: set[asyncio.Task[Any]] = set()


WITHIN_LOOP = (
    "a home cannot be used where an event loop is at work: call it in a thread, one call at a time, "
    "as by asyncio.to_thread(agent.add, element); in an action return what is to be added"
)


class Runner:
    """A loop whose coroutines Ctrl-C cancels, so that `run` raises KeyboardInterrupt.

    Raises RequestError if another loop is running in this thread.
    """

    def __init__(self) -> None:
        if asyncio._get_running_loop() is not None:
            raise RequestError(WITHIN_LOOP)
        self._program, self._is_closed = os.getpid(), False
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._is_main = threading.current_thread() is threading.main_thread()
        self._handles = self._is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._handles:
            signal.signal(signal.SIGINT, _interrupt)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of a coroutine. Raises RequestError if none can run."""
        if self.is_over or self._loop.is_running() or asyncio._get_running_loop() is not None:
            work.close()
            raise RequestError(self._refusal())
        task = self._loop.create_task(work)
        if self._is_main:
            _at_work.append(task)
        try:
            return self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            if task in _interrupted:
                raise KeyboardInterrupt from None
            raise
        finally:
            if self._is_main:
                _at_work.remove(task)
            _interrupted.discard(task)

    @property
    def is_over(self) -> bool:
        """True after it is closed, and in a forked child of the program that made it."""
        return self._is_closed or self._program != os.getpid()

    def _refusal(self) -> str:
        if self._program != os.getpid():
            return (
                f"this home is open in program {self._program}, from which this one was forked: use it there"
            )
        if self._is_closed:
            return "this home is closed: open it again (narval.open)"
        if asyncio._get_running_loop() is not None:
            return WITHIN_LOOP
        return "another thread asks this home now: use it in one thread at a time, or hold a lock of your own"

    def close(self) -> None:
        """Close the loop, and restore the handler of Ctrl-C."""
        self._is_closed = True
        if self._handles and signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._handles = False
        self._runner.close()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Cancel the innermost task; raise at once on a second Ctrl-C, or without a task."""
    task = _at_work[-1] if _at_work else None
    if task is None or task.done() or task in _interrupted:
        raise KeyboardInterrupt
    _interrupted.add(task)
    task.cancel()
    task.get_loop().call_soon_threadsafe(lambda: None)


# --- operations as methods ---------------------------------------------------------------------------------

Parameters = ParamSpec("Parameters")
Asked = Operation[Concatenate[Daemon, Parameters], Coroutine[Any, Any, Result]]


class AtWork(Protocol):
    """A daemon in this program, the loop that it runs on, and the asker."""

    daemon: Daemon
    runner: Runner
    asker: Asker


def ask(
    at_work: AtWork,
    operation: Asked[Parameters, Result],
    *arguments: Parameters.args,
    **named: Parameters.kwargs,
) -> Result:
    """The answer of an operation, asked by that asker."""
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

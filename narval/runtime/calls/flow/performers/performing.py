"""Performers: what does the work of operators outside, one for each instance of an operator (T57)."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from narval.definitions.dataflow.definition import OperatorCall
from narval.engines.dataflow.network.batches import TupleBatch
from narval.engines.dataflow.network.requests import OperatorRequest

MOST_THREADS = 32
"""The functions of modules that run at once in threads, of one session."""


class FlowAnswer(NamedTuple):
    """Some tuples for an output; the port may be left out where there is but one. None choose the output of a
    conditional operator.
    """

    batch: TupleBatch
    port: str = ""
    at: int = 0


Give = Callable[[FlowAnswer], Awaitable[None]]
"""Takes an answer; a source waits there for room (TA41)."""


class Performer(Protocol):
    """An operator outside, in one try of one frame: it is asked for one request after another, or for several
    at once where the operator bears that.
    """

    async def perform(self, request: OperatorRequest, give: Give) -> None:
        """Do what is asked, and give what comes of it. Raises FlowError or ActionError."""


Hire = Callable[[OperatorRequest], Performer]
"""Makes the performer of the instance that a request is of."""

Function = Callable[..., Any]

Result = TypeVar("Result")


class UserCode:
    """The functions and classes of modules, called where nothing waits for them: in threads, or awaited.

    One that does not come back keeps its thread, and nothing else: its program ends without it.
    """

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions, self._room = functions, asyncio.Semaphore(MOST_THREADS)

    def find(self, key: str) -> Function | None:
        """The function or class of that key, such as `function:double`."""
        return self._functions.get(key)

    async def call(self, function: Function, *arguments: Any, **named: Any) -> Any:
        """Await a function, or call it in a thread; its result."""
        if inspect.iscoroutinefunction(function):
            return await function(*arguments, **named)
        return await self.in_thread(partial(function, *arguments, **named))

    async def each(self, function: Function, values: list[Any]) -> list[Any]:
        """Call a function for several values, in order; its results."""
        if inspect.iscoroutinefunction(function):
            return [await function(value) for value in values]
        return await self.in_thread(lambda: [function(value) for value in values])

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Do work that may block; its result."""
        async with self._room:
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[Result] = loop.create_future()
            run = partial(copy_context().run, _answer, work, loop, answer)
            threading.Thread(target=run, name="narval-flow", daemon=True).start()
            return await answer


def _answer(
    work: Callable[[], Result], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Result]
) -> None:
    """Do work in its thread, and settle what waits for it in the loop, if that is still there."""
    try:
        settle = partial(answer.set_result, work())
    except BaseException as error:
        # No future takes a StopIteration, and SystemExit would be the end of the loop.
        is_plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
        settle = partial(answer.set_exception, error if is_plain else RuntimeError(f"it raised {error!r}"))
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(lambda: None if answer.done() else settle())


def only_output(call: OperatorCall) -> str:
    """The name of the one output of an operator."""
    return call.operator.outputs[0].name


def in_batches(rows: Iterable[Any], most: int) -> Iterable[list[Any]]:
    """Rows in lists of at most so many."""
    batch: list[Any] = []
    for row in rows:
        batch.append(row)
        if len(batch) >= most:
            yield batch
            batch = []
    if batch:
        yield batch

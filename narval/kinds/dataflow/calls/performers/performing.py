"""Performers: they do the work of outside operators, one for each instance of an operator (T57)."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, closing, suppress
from contextvars import copy_context
from functools import partial
from itertools import groupby, islice
from typing import Any, NamedTuple, Protocol, TypeVar

from narval.calls.conversion import raisable
from narval.kinds.dataflow.engine.network.batches import BATCH, TupleBatch
from narval.kinds.dataflow.engine.network.requests import OperatorRequest
from narval.kinds.dataflow.language.definition import OperatorCall


class FlowAnswer(NamedTuple):
    """Some tuples for an output; the port may be omitted if there is only one. An empty batch chooses the
    output of a conditional operator.
    """

    batch: TupleBatch
    port: str = ""
    at: int = 0


class Performer(Protocol):
    """An outside operator, in one try of one frame. It gets requests one after another, or several at once if
    the operator allows that.
    """

    def perform(self, request: OperatorRequest) -> AsyncGenerator[FlowAnswer]:
        """Do the requested work, and yield the results, each taken when there is room (TA41). Raises
        FlowError or ActionError.
        """


MakePerformer = Callable[[OperatorRequest], Performer]
"""Makes the performer of the instance that a request belongs to."""

Function = Callable[..., Any]

Result = TypeVar("Result")


Part = Callable[[Callable[[], Any], float | None], Awaitable[Any]]
"""A function that runs a part of a session in a thread of the executor (`AgentCalls.part`)."""


class UserCode:
    """The functions and classes of modules, called without blocking the loop: in threads, or awaited.

    One that never returns blocks only its thread: its program ends without it.
    """

    def __init__(self, functions: Mapping[str, Function], part: Part) -> None:
        self._functions, self._part = functions, part

    def find(self, key: str) -> Function | None:
        """The function or class of that key, such as `function:double`."""
        return self._functions.get(key)

    async def call(self, function: Function, *arguments: Any, **named: Any) -> Any:
        """Await a function, or call it in a thread; return its result."""
        if inspect.iscoroutinefunction(function):
            return await function(*arguments, **named)
        return await self.in_thread(partial(function, *arguments, **named))

    async def each(self, function: Function, values: list[Any]) -> list[Any]:
        """Call a function for several values, in order; return its results."""
        if inspect.iscoroutinefunction(function):
            return [await function(value) for value in values]
        return await self.in_thread(lambda: [function(value) for value in values])

    async def stream(
        self, calls: Iterable[Callable[[], Any]], most: int = BATCH
    ) -> AsyncGenerator[list[Any]]:
        """The values that calls return or yield, one call after another, each as soon as it is available.
        Blocking code is at most `most` values ahead.

        Async code is awaited. Other code gets a thread of its own until it ends, like a source. In a thread
        of the executor, it could block the functions that take its values while it waits for them.
        """
        for is_awaited, group in groupby(calls, _is_awaited):
            some = list(group)
            streams = map(_awaited, some) if is_awaited else [ThreadStream(_each_of(some), most).batches()]
            for stream in streams:
                async with aclosing(stream) as batches:
                    async for values in batches:
                        yield values

    async def in_thread(self, work: Callable[[], Result], timeout: float | None = None) -> Result:
        """Do work that may block; return its result. Raises ActionError `timeout` after `timeout` seconds."""
        result: Result = await self._part(work, timeout)
        return result


class ThreadStream:
    """Values that a generator yields in a thread of its own, while the loop takes them.

    The generator is at most `most` values ahead. It is closed in its thread when it ends, or at its next
    value after the loop has stopped taking them.
    """

    def __init__(self, values: Iterator[Any], most: int = BATCH) -> None:
        self._source, self._most = values, most
        self._values: list[Any] = []
        self._error: Exception | None = None
        self._has_ended = self._is_stopped = False
        self._changed = threading.Condition()
        self._loop, self._ready = asyncio.get_running_loop(), asyncio.Event()

    async def batches(self) -> AsyncGenerator[list[Any]]:
        """The values in lists, each with all that are available. Raises the generator's error after them."""
        run = partial(copy_context().run, self._run)
        threading.Thread(target=run, name="narval-flow", daemon=True).start()
        try:
            has_ended = False
            while not has_ended:
                await self._ready.wait()
                with self._changed:
                    self._ready.clear()
                    values, self._values = self._values, []
                    has_ended = self._has_ended
                    self._changed.notify()
                if values:
                    yield values
            if self._error is not None:
                raise self._error
        finally:
            with self._changed:
                self._is_stopped = True
                self._changed.notify()

    def _run(self) -> None:
        try:
            with closing(self._source) as values:  # type: ignore[type-var]
                for value in values:
                    if not self._hand_over(value):
                        return
        except BaseException as error:
            self._error = raisable(error)
        with self._changed:
            self._has_ended = True
            self._tell()

    def _hand_over(self, value: Any) -> bool:
        """Hand a value to the loop, and wait for room for another; return False if the loop takes no more."""
        with self._changed:
            self._values.append(value)
            if len(self._values) == 1:
                self._tell()
            self._changed.wait_for(lambda: self._is_stopped or len(self._values) < self._most)
            return not self._is_stopped

    def _tell(self) -> None:
        with suppress(RuntimeError):  # the loop that stopped this generator may be gone
            self._loop.call_soon_threadsafe(self._ready.set)


def _is_awaited(call: Callable[[], Any]) -> bool:
    return inspect.isasyncgenfunction(call) or inspect.iscoroutinefunction(call)


def _each_of(calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    for call in calls:
        yield from values_of(call())


async def _awaited(call: Callable[[], Any]) -> AsyncGenerator[list[Any]]:
    """The values of async code: each one that it yields, or all those of its result."""
    if not inspect.isasyncgenfunction(call):
        yield list(values_of(await call()))
        return
    async with aclosing(call()) as values:
        async for value in values:
            yield [value]


def values_of(result: Any) -> Iterable[Any]:
    """The values of a function's result: none for None, one for a value, else what it yields."""
    if result is None:
        return ()
    return (result,) if isinstance(result, str | int | float | Mapping) else result


def only_output(call: OperatorCall) -> str:
    """The name of the only output of an operator."""
    return call.operator.outputs[0].name


def in_batches(rows: Iterable[Any]) -> Iterable[list[Any]]:
    """Rows in lists of at most `BATCH`."""
    left = iter(rows)
    while batch := list(islice(left, BATCH)):
        yield batch

"""What every place that answers calls is given, and what it gives back (N33)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from narval.engines.commands import Program
from narval.engines.events import Failure, OutputElement
from narval.memory.elements.element import Element
from narval.runtime.calls.context import CurrentCall

Where = Literal["thread", "worker", "inline", "async", "source", "transform", "program", "script"]
Inputs = Mapping[str, Element | list[Element] | None]
Produced = Callable[[list[OutputElement]], Awaitable[None]]
Announce = Callable[[Callable[[], None]], None]
"""Says that a call is about to be begun; when that is recorded, what it was given is called."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One call to answer.

    `call` is its id, `attempt` the number of the try, `run` and `step` say who calls, `family` is the run
    of the top level behind them, and `action` names what is called. In this program `function` is called; in
    a worker, function `function_name` of the module `module_path`, or the stylesheet at `module_path`.
    `source` is the text of that file as it was when the definition was loaded; without it the worker reads
    the file. `inputs` are by input id, in declaration order. `timeout` is in seconds, None for none.
    `program` is what is run where that is a program.
    `payload` is what a call of a node is about: its hook, its token as plain data, its script.
    """

    call: str
    run: int
    step: str
    action: str
    attempt: int = 1
    family: int = 0
    where: Where
    function: Callable[..., Any] | None = None
    module_path: str = ""
    function_name: str = ""
    source: bytes | None = None
    inputs: Inputs = {}
    timeout: float | None = None
    home: Path | None = None
    program: Program | None = None
    payload: Mapping[str, Any] | None = None


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How a call ended: what it gave, or why it failed, or that it was given up on request.

    `value` is plain data: of a program its status and last lines, of a node what it left.
    """

    elements: list[OutputElement] = []
    problem: Failure | None = None
    abandoned: bool = False
    value: dict[str, Any] | None = None


class Counts(msgspec.Struct, frozen=True):
    """What `status` shows: calls under way, calls waiting for a place, calls given up whose thread or
    coroutine still lives, and workers that died or were killed.
    """

    running: int
    queued: int
    given_up: int
    worker_restarts: int


class RunningCall:
    """One call in its place: it begins once, is answered once, and may be given up in between.

    It has *begun* when it has its place, and is *under way* when its code runs: in between, a call that must
    not be made twice is announced.
    """

    __slots__ = (
        "_announce", "_done", "_timer", "begun", "call", "over", "produced", "since", "task", "under_way",
    )  # fmt: skip

    def __init__(
        self,
        task: Task,
        call: CurrentCall,
        done: Callable[[RunningCall, Outcome], None],
        produced: Produced,
        announce: Announce | None = None,
        *,
        since: float = 0.0,
    ) -> None:
        self.task, self.call, self.produced = task, call, produced
        self.begun = self.under_way = self.over = False
        self.since = since
        self._done, self._announce = done, announce
        self._timer: asyncio.TimerHandle | None = None

    def begin(
        self, loop: asyncio.AbstractEventLoop, expire: Callable[[RunningCall], None], go: Callable[[], None]
    ) -> None:
        """The time limit runs from now, not from when the call was asked for; `expire` is told of its end.

        `go` does the work: at once, or when it has been announced.
        """
        self.begun = True
        if self.task.timeout is not None:
            self.call.deadline = time.time() + self.task.timeout
            self._timer = loop.call_later(self.task.timeout, expire, self)

        if self._announce is None:
            self._go(go)
        else:
            self._announce(partial(self._go, go))

    def _go(self, go: Callable[[], None]) -> None:
        if not self.over:
            self.under_way = True
            go()

    def answer(self, outcome: Outcome) -> None:
        """The call is over; whatever else comes of it is dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.over:
            self.over = True
            self._done(self, outcome)

    def expired(self) -> Outcome:
        """The outcome of a call that outlived its time limit."""
        message = f"{self.task.action} did not come back within {self.task.timeout:g} s"
        return Outcome(problem=Failure("timeout", message))


class Backend(Protocol):
    """Where calls are answered. All of it is used on the loop's thread."""

    @property
    def queued(self) -> int:
        """Calls that wait for room."""

    @property
    def given_up(self) -> int:
        """Calls given up whose code still runs."""

    def start(self, work: RunningCall) -> None:
        """Answer a call, now or when there is room."""

    def abandon(self, work: RunningCall) -> None:
        """Give a call up: stop it as far as that is possible, and answer that it was abandoned."""

    async def close(self) -> None:
        """Stop everything that can be stopped; nothing is answered any more."""


ABANDONED = Outcome(abandoned=True)

"""The contract of the backends, which answer calls, and the state of a call in one of them (N33)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from narval.calls.context import CallContext
from narval.core.engines.events import Failure, OutputElement

Produced = Callable[[list[OutputElement]], Awaitable[None]]
Announce = Callable[[Callable[[], None]], None]
"""Given a function that begins the call, which is called once it is recorded that the call begins."""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The end of a call: its output elements, or why it failed, or that it was given up on request.

    `value` is plain data: of a program its status and last lines, of a node's code its effects. `recorded` is
    called when the end is recorded, or nobody wants it. One that is `lost` is none: what answered the call
    was ended with the lease of the daemon, and recovery decides what becomes of the call.
    """

    elements: list[OutputElement] = []
    problem: Failure | None = None
    abandoned: bool = False
    value: dict[str, Any] | None = None
    recorded: Callable[[], None] | None = None
    lost: bool = False


class Counts(msgspec.Struct, frozen=True):
    """The numbers that `status` shows: calls under way, calls waiting for room, calls given up whose thread
    or coroutine still lives, and workers that died or were killed.
    """

    running: int
    queued: int
    given_up: int
    worker_restarts: int


class RunningCall:
    """One call in its backend: it begins once, is answered once, and may be given up in between.

    It has *begun* when there is room for it, and is *under way* when its code runs: in between, a call that
    must not be made twice is announced. `since` is when it was asked for.
    """

    __slots__ = (
        "_announce", "_done", "_timer", "begun", "call", "over", "produced", "since", "under_way",
    )  # fmt: skip

    def __init__(
        self,
        call: CallContext,
        done: Callable[[RunningCall, Outcome], None],
        produced: Produced,
        announce: Announce | None = None,
        *,
        since: float = 0.0,
    ) -> None:
        self.call, self.produced = call, produced
        self.begun = self.under_way = self.over = False
        self.since = since
        self._done, self._announce = done, announce
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_announced(self) -> bool:
        """True if it is recorded that the call begins, because it must not be made twice."""
        return self._announce is not None

    def begin(
        self,
        loop: asyncio.AbstractEventLoop,
        expire: Callable[[RunningCall], None] | None,
        go: Callable[[], None],
    ) -> None:
        """Call `go`, which does the work: at once, or when the call has been announced.

        The time limit runs from now, not from when the call was asked for; at its end `expire` is called.
        Without `expire` somebody else keeps it.
        """
        self.begun = True
        if self.call.timeout is not None and expire is not None:
            self.call.start_clock(time.time())
            self._timer = loop.call_later(self.call.timeout, expire, self)

        if self._announce is None:
            self._go(go)
        else:
            self._announce(partial(self._go, go))

    def _go(self, go: Callable[[], None]) -> None:
        if not self.over:
            self.under_way = True
            go()

    def answer(self, outcome: Outcome) -> None:
        """End the call with this outcome; any that comes later is dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.over:
            self.over = True
            self._done(self, outcome)

    def discard(self) -> None:
        """End the call without an answer, unless its code runs: then that may still answer."""
        self.over = self.over or not self.under_way

    def expired(self) -> Outcome:
        """The outcome of a call that outlived its time limit."""
        message = f"{self.call.target.action} did not come back within {self.call.timeout:g} s"
        return Outcome(problem=Failure("timeout", message))


class Backend(Protocol):
    """A place where calls are answered. All of it is used on the loop's thread."""

    @property
    def queued(self) -> int:
        """The number of calls that wait for room."""

    @property
    def given_up(self) -> int:
        """The number of calls given up whose code still runs."""

    def start(self, running: RunningCall) -> None:
        """Answer a call, now or when there is room."""

    def abandon(self, running: RunningCall) -> None:
        """Give a call up: stop it as far as that is possible, and answer that it was abandoned."""

    async def close(self) -> None:
        """Stop everything that can be stopped; nothing is answered any more."""


ABANDONED = Outcome(abandoned=True)
LOST = Outcome(lost=True)

"""`call()`: what an action may know and say about the call it answers (N33, N36, N37)."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from narval.errors import RequestError

_current: contextvars.ContextVar[CurrentCall] = contextvars.ContextVar("narval-call")


class CurrentCall(msgspec.Struct, eq=False):
    """The call that an action answers.

    `id` is the same when the call is tried again, so an effect outside can be made once (N37); `attempt` is
    the number of the try, 1 for the first (N29). `run` and `step` say who called, `deadline` is the moment
    (seconds since 1970) when the call is given up, or None; `home` is the folder against which relative paths
    are read, or None for a home in memory. The fields after it are for the runtime.
    """

    id: str
    run: int
    step: str
    home: Path | None = None
    deadline: float | None = None
    attempt: int = 1
    is_source: bool = False
    listener: Callable[[CurrentCall], None] | None = None
    nap: Callable[[CurrentCall, float], Awaitable[None]] | None = None
    progressed: tuple[float, float | None] | None = None
    has_caught_up: bool = False

    def progress(self, done: float, total: float | None = None) -> None:
        """Say how far the work is; surfaces show the last that was said."""
        for number in (done, total):
            if number is not None and not (isinstance(number, int | float) and math.isfinite(number)):
                raise RequestError(f"expected progress(done, total) in numbers, got {number!r}")
        self.progressed = (done, total)
        self._tell()

    def caught_up(self) -> None:
        """Say that what was there when the source began has been given, so nobody need wait for it (N36)."""
        if not self.is_source:
            raise RequestError(f"caught_up() is for sources; step {self.step!r} calls no source")
        self.has_caught_up = True
        self._tell()

    async def sleep(self, seconds: float) -> None:
        """What `sleep` does within this call."""
        await (asyncio.sleep(seconds) if self.nap is None else self.nap(self, seconds))

    def context(self) -> contextvars.Context:
        """A context of one's own in which `call()` gives this call."""
        context = contextvars.copy_context()
        context.run(self.enter)
        return context

    def enter(self) -> None:
        """From now on `call()` gives this call, in the context that this is said in."""
        _current.set(self)

    def _tell(self) -> None:
        if self.listener is not None:
            self.listener(self)

    def __repr__(self) -> str:
        return f"<call {self.id} of step {self.step!r} of run {self.run}>"


def call() -> CurrentCall:
    """The call that is being answered, in whatever thread, task or worker the action runs."""
    current = _current.get(None)
    if current is None:
        raise RequestError(
            "call() is for actions while they run; a thread that an action starts gets it as an argument"
        )
    return current


async def sleep(seconds: float) -> None:
    """Let time pass within an `async` action or a source, on the daemon's clock.

    That is the machine's; a test or a simulation moves one of its own, and then nothing really waits. Outside
    of a call it is the machine's as well.
    """
    current = _current.get(None)
    _check(seconds)
    await (asyncio.sleep(seconds) if current is None else current.sleep(seconds))


def _check(seconds: float) -> None:
    if not (isinstance(seconds, int | float) and 0 <= seconds < math.inf):
        raise RequestError(f"expected to sleep for a number of seconds, got {seconds!r}")


def current_call() -> CurrentCall | None:
    """The call that is being answered here, or None."""
    return _current.get(None)

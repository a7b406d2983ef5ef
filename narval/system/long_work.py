"""Long work beside the event loop: in slices between which the loop runs other work, or in a thread of its
own.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Generic, TypeVar

SLICE = 0.005
"""The seconds of work without a break."""


class TimeSlice:
    """The time since the last break of some work."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.monotonic()

    async def yield_if_due(self) -> None:
        """Let the loop run other work, if the slice is used up."""
        if time.monotonic() - self._since > SLICE:
            await asyncio.sleep(0)
            self._since = time.monotonic()


Result = TypeVar("Result")


class LoneThread(Generic[Result]):
    """Work in a thread of its own, which starts at once; `done` is its outcome."""

    def __init__(self, work: Callable[[], Result], name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[Result] = self._loop.create_future()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._live, work), name=name, daemon=True
        )
        self._thread.start()

    def stack(self) -> traceback.StackSummary:
        """The active calls of the thread, outermost first; none when it has ended."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return traceback.extract_stack(frame) if frame is not None else traceback.StackSummary()

    def _live(self, work: Callable[[], Result]) -> None:
        try:
            result = work()
        except BaseException as error:
            self._pass_on(self.done.set_exception, error)
        else:
            self._pass_on(self.done.set_result, result)

    def _pass_on(self, settle: Callable[[Any], None], outcome: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nothing waits for the outcome
            self._loop.call_soon_threadsafe(self._settle, settle, outcome)

    def _settle(self, settle: Callable[[Any], None], outcome: object) -> None:
        if not self.done.done():
            settle(outcome)

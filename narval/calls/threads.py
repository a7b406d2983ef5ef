"""Calls answered in threads (N33).

The threads are daemons, so none of them keeps the program from ending. A thread cannot be stopped: one that
outlives its time limit is given up and replaced, it is counted while it lives, and its late answer is
dropped. All bookkeeping is done on the loop's thread, so there are no locks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from functools import partial
from queue import SimpleQueue

from narval.calls.backend import Outcome, RunningCall
from narval.calls.conversion import answer
from narval.calls.fair_queue import QueuedBackend
from narval.core.engines.events import Failure


class _Thread:
    """One thread, which answers the calls in its inbox until it finds None there."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, answered: Callable[[RunningCall, Outcome], None]
    ) -> None:
        self.inbox: SimpleQueue[RunningCall | None] = SimpleQueue()
        self._loop, self._answered = loop, answered
        threading.Thread(target=self._live, name="narval-action", daemon=True).start()

    def _live(self) -> None:
        while (running := self.inbox.get()) is not None:
            outcome = running.call.context().run(answer, running.call)
            try:
                self._loop.call_soon_threadsafe(self._answered, running, outcome)
            except RuntimeError:  # the loop is closed: nobody listens any more
                return
            del running, outcome  # an idle thread holds on to nothing


class Threads(QueuedBackend):
    """At most `most` threads, each made when it is first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        super().__init__("threads")
        self._loop, self._limit = loop, most
        self._idle: list[_Thread] = []
        self._busy: dict[RunningCall, _Thread] = {}
        self._given_up: set[RunningCall] = set()

    @property
    def given_up(self) -> int:
        """The number of threads given up that still live."""
        return len(self._given_up)

    def limit(self, most: int) -> None:
        """Keep to at most so many threads from now on; threads beyond that end with their calls."""
        self._limit = most
        self._hand_out()

    async def close(self) -> None:
        """Tell the threads to end; those that are busy end with the program."""
        self._waiting.clear()
        for thread in (*self._idle, *self._busy.values()):
            thread.inbox.put(None)
        self._idle.clear()

    def _most(self) -> int:
        return self._limit

    def _taken(self) -> Collection[RunningCall]:
        return self._busy

    def _hand_out(self) -> None:
        while self._waiting and (self._idle or len(self._busy) < self._limit):
            full = self._full()
            if not self._waiting.has_but(full):
                return
            try:
                thread = self._idle.pop() if self._idle else _Thread(self._loop, self._take_back)
            except RuntimeError as error:  # the system has no room for another thread
                if self._busy:
                    return
                self._waiting.next(full).answer(Outcome(problem=Failure("no-thread", str(error))))
                continue
            running = self._waiting.next(full)
            self._busy[running] = thread
            running.begin(self._loop, self._expire, partial(thread.inbox.put, running))

    def _take_back(self, running: RunningCall, outcome: Outcome) -> None:
        thread = self._busy.pop(running, None)
        if thread is None:
            self._given_up.discard(running)
            return
        if len(self._busy) + len(self._idle) < self._limit:
            self._idle.append(thread)
        else:
            thread.inbox.put(None)
        running.answer(outcome)
        self._hand_out()

    def _stop(self, running: RunningCall, outcome: Outcome) -> None:
        """Leave its thread to itself."""
        thread = self._busy.pop(running)
        if running.under_way:
            thread.inbox.put(None)
            self._given_up.add(running)
        else:
            self._idle.append(thread)
        running.answer(outcome)
        self._hand_out()

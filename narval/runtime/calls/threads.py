"""Calls answered in threads (N33).

The threads are daemons, so none of them keeps the program from ending. A thread cannot be stopped: one that
outlives its time limit is given up and replaced, it is counted while it lives, and what it brings late is
dropped. All bookkeeping is done on the loop's thread, so there are no locks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

from narval.engines.events import Failure
from narval.runtime.calls.backend import ABANDONED, Outcome, RunningCall
from narval.runtime.calls.conversion import answer
from narval.runtime.calls.fair_queue import Waiting


class _Thread:
    """One thread, which answers what is put into its inbox until it finds None there."""

    __slots__ = ("_heard", "_loop", "inbox")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, heard: Callable[[RunningCall, Outcome], None]
    ) -> None:
        self.inbox: SimpleQueue[RunningCall | None] = SimpleQueue()
        self._loop, self._heard = loop, heard
        threading.Thread(target=self._live, name="narval-action", daemon=True).start()

    def _live(self) -> None:
        while (work := self.inbox.get()) is not None:
            outcome = work.call.context().run(answer, work.task, work.task.inputs, work.task.call)
            try:
                self._loop.call_soon_threadsafe(self._heard, work, outcome)
            except RuntimeError:  # the loop is closed: nobody listens any more
                return
            del work, outcome  # an idle thread holds on to nothing


class Threads:
    """At most `most` threads, each made when it is first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._loop, self._most = loop, most
        self._waiting = Waiting()
        self._idle: list[_Thread] = []
        self._busy: dict[RunningCall, _Thread] = {}
        self._given_up: set[RunningCall] = set()

    @property
    def queued(self) -> int:
        """Calls that wait for a thread."""
        return len(self._waiting)

    @property
    def given_up(self) -> int:
        """Threads given up that still live."""
        return len(self._given_up)

    def limit(self, most: int) -> None:
        """From now on there are at most so many; those there are too many end with their calls."""
        self._most = most
        self._hand_out()

    def start(self, work: RunningCall) -> None:
        """Answer a call as soon as a thread is free."""
        self._waiting.add(work)
        self._hand_out()

    def abandon(self, work: RunningCall) -> None:
        """Take a call out of the queue, or leave its thread to itself."""
        if work in self._busy:
            self._give_up(work, ABANDONED)
        else:
            self._waiting.remove(work)
            work.answer(ABANDONED)

    async def close(self) -> None:
        """Tell the threads to end; those that are busy end with the program."""
        self._waiting.clear()
        for thread in (*self._idle, *self._busy.values()):
            thread.inbox.put(None)
        self._idle.clear()

    def _hand_out(self) -> None:
        while self._waiting and (self._idle or len(self._busy) < self._most):
            try:
                thread = self._idle.pop() if self._idle else _Thread(self._loop, self._heard)
            except RuntimeError as error:  # the system has no room for another thread
                if self._busy:
                    return
                self._waiting.next().answer(Outcome(problem=Failure("no-thread", str(error))))
                continue
            work = self._waiting.next()
            self._busy[work] = thread
            work.begin(self._loop, self._expire, partial(thread.inbox.put, work))

    def _heard(self, work: RunningCall, outcome: Outcome) -> None:
        thread = self._busy.pop(work, None)
        if thread is None:
            self._given_up.discard(work)
            return
        if len(self._busy) + len(self._idle) < self._most:
            self._idle.append(thread)
        else:
            thread.inbox.put(None)
        work.answer(outcome)
        self._hand_out()

    def _expire(self, work: RunningCall) -> None:
        self._give_up(work, work.expired())

    def _give_up(self, work: RunningCall, outcome: Outcome) -> None:
        thread = self._busy.pop(work)
        if work.under_way:
            thread.inbox.put(None)
            self._given_up.add(work)
        else:
            self._idle.append(thread)
        work.answer(outcome)
        self._hand_out()

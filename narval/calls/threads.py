"""Calls answered in threads (N33).

The threads are daemons, so that none keeps the program from ending. A thread cannot be stopped. One that
exceeds its time limit is given up and replaced; it is counted while it lives, and no run gets its late
answer. All bookkeeping is done on the loop's thread, so there are no locks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue

from narval.calls.conversion import answer
from narval.calls.fair_queue import QueuedBackend
from narval.calls.record import CallRecord, Outcome
from narval.core.engines.events import Failure


class _Thread:
    """One thread, which answers the calls in its inbox until it gets None."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, answered: Callable[[CallRecord, Outcome], None]
    ) -> None:
        self.inbox: SimpleQueue[CallRecord | None] = SimpleQueue()
        self._loop, self._answered = loop, answered
        threading.Thread(target=self._live, name="narval-action", daemon=True).start()

    def _live(self) -> None:
        while (record := self.inbox.get()) is not None:
            outcome = copy_context().run(answer, record.call)
            try:
                self._loop.call_soon_threadsafe(self._answered, record, outcome)
            except RuntimeError:  # the loop is closed: there is no listener
                return
            del record, outcome  # an idle thread keeps nothing alive


class Threads(QueuedBackend):
    """At most `most` threads, each created when it is first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int, is_shared: Callable[[], bool]) -> None:
        super().__init__("threads", is_shared)
        self._loop, self._limit = loop, most
        self._idle: list[_Thread] = []
        self._given_up: set[CallRecord] = set()

    @property
    def given_up(self) -> int:
        """The number of abandoned threads that still live."""
        return len(self._given_up)

    def limit(self, most: int) -> None:
        """Use at most `most` threads from now on; excess threads end with their calls."""
        self._limit = most
        self._hand_out()

    async def close(self) -> None:
        """Tell the threads to end; busy ones end with the program."""
        self._waiting.clear()
        for thread in (*self._idle, *(record.place for record in self._busy)):
            thread.inbox.put(None)
        self._idle.clear()

    def _most(self) -> int:
        return self._limit

    def start(self, record: CallRecord) -> None:
        """Answer a call as soon as a thread is free for it."""
        self._waiting.add(record)
        self._hand_out()

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
            record = self._waiting.next(full)
            record.give_to(thread)
            self._busy.add(record)
            if record.begin(self._expire):
                self.go(record)

    def go(self, record: CallRecord) -> None:
        """Give a call to its thread."""
        record.place.inbox.put(record)

    def _take_back(self, record: CallRecord, outcome: Outcome) -> None:
        if record in self._given_up:
            self._given_up.discard(record)
            record.end_late(outcome)
            return
        thread = record.place
        self._busy.discard(record)
        if len(self._busy) + len(self._idle) < self._limit:
            self._idle.append(thread)
        else:
            thread.inbox.put(None)
        record.answer(outcome)
        self._hand_out()

    def _stop(self, record: CallRecord, outcome: Outcome) -> None:
        """Abandon its thread."""
        thread = record.place
        self._busy.discard(record)
        if record.state == "running":
            thread.inbox.put(None)
            self._given_up.add(record)
            record.outlive()
        else:
            self._idle.append(thread)
        record.answer(outcome)
        self._hand_out()

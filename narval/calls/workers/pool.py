"""Calls answered in child programs; also transforms, which may loop (N32, N33).

A worker answers one call at a time. If its call exceeds its time limit, or is given up, the worker is killed
with everything that it started. The crash of a worker costs only its call, and another is started when it is
needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain

from narval.calls.backend import QueuedBackend
from narval.calls.output_capture import log_print, log_record
from narval.calls.programs.process_group import small_environment
from narval.calls.programs.reaper_client import ReaperClient
from narval.calls.record import LOST, CallRecord, Outcome
from narval.calls.workers.child import Child, worker_words
from narval.calls.workers.confined import Confined
from narval.calls.workers.frames import FrameError, Logged, Progressed, Ready, WorkerMessage, frame_of, pack
from narval.core.engines.events import Failure
from narval.files.settings import CallLimits

SPARE = 1
"""The idle workers that may live in addition to the busy ones. Otherwise, with one worker, calls that
alternate between two sets of places would end each other's worker every time.
"""


class WorkerBudget:
    """The workers that may be busy at once, `most` of them. All pools of a home share it, so that the number
    of programs does not grow with the places to which calls are confined.

    Each pool with waiting calls first gets one worker, then an equal share; idle workers of other pools end
    for it. The pool that was served longest ago is next.
    """

    def __init__(self, most: int) -> None:
        self.most, self.restarts = most, 0
        """The most workers, and the number of workers that died or were killed."""
        self._pools: dict[Workers, None] = {}
        """The pools, the most recently served at the end."""

    def add(self, pool: Workers) -> None:
        """Let a pool share the budget."""
        self._pools[pool] = None

    def drop(self, pool: Workers) -> None:
        """Stop counting the workers of a pool that is no longer used."""
        self._pools.pop(pool, None)

    def limit(self, most: int) -> None:
        """Let at most `most` workers live from now on."""
        self.most = most

    def count_restart(self) -> None:
        """Count a worker that died or was killed."""
        self.restarts += 1

    def serve(self, pool: Workers) -> None:
        """Move this pool, to which a call was just given, behind all others."""
        del self._pools[pool]
        self._pools[pool] = None

    @property
    def may_work(self) -> bool:
        """True if one more worker may be busy: have a call, or start for one."""
        return sum(pool.size - len(pool._idle) for pool in self._pools) < self.most

    def taken(self) -> Iterator[CallRecord]:
        """The calls that have a worker, in any pool."""
        return chain.from_iterable(pool._busy for pool in self._pools)

    def hand_out(self) -> None:
        """Give waiting calls to idle workers, and start others while the budget allows."""
        waiting = [pool for pool in self._pools if pool.queued]
        share = max(1, self.most // max(1, len(waiting)))
        for pool in waiting:
            if not pool.size and pool.lacks_workers and self._has_room():
                pool.start_worker()
        for pool in waiting:
            if pool.size <= share:  # else its own idle workers would end for others of the same kind
                pool.give_to_idle()
        for pool in waiting:
            while pool.size < share and pool.lacks_workers and self._has_room():
                pool.start_worker()
        for pool in waiting:
            pool.give_to_idle()
        for pool in waiting:
            while pool.lacks_workers and self._has_room():
                pool.start_worker()

    def _has_room(self) -> bool:
        """True if one more worker may be started for a call. If too many live, an idle one ends for it."""
        if not self.may_work:
            return False
        has_room = sum(pool.size for pool in self._pools) < self.most + SPARE
        return has_room or any(pool.retire_one() for pool in self._pools)


class Workers(QueuedBackend):
    """A pool of programs, each started when it is first needed, and confined if `confined` is given. Its
    `budget` limits their number; without one, `limits.workers` does.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: CallLimits,
        reaper: ReaperClient | None,
        is_shared: Callable[[], bool],
        confined: Confined | None = None,
        budget: WorkerBudget | None = None,
    ) -> None:
        super().__init__("workers", is_shared)
        self._confined = confined
        self._loop, self._limits, self._reaper = loop, limits, reaper
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._starting: set[Child] = set()
        self.budget = budget or WorkerBudget(limits.workers)
        self.budget.add(self)

    def limit(self, limits: CallLimits) -> None:
        """Apply other limits from the next call on."""
        self._limits = limits
        self.budget.limit(limits.workers)
        self.budget.hand_out()

    def replace(self) -> None:
        """Retire the workers, which may have imported changed modules: idle ones now, the others after their
        call. No call is disturbed.
        """
        for child in self._children - self._starting:
            child.outdate()
        for child in tuple(self._idle):
            self._retire(child)

    def leave(self) -> None:
        """Retire the workers of a pool that is no longer used."""
        self.budget.drop(self)
        self.replace()

    @property
    def is_idle(self) -> bool:
        """True while no call is under way or waits."""
        return not (self._busy or self._waiting or self._starting)

    async def close(self) -> None:
        """Kill all workers."""
        self._waiting.clear()
        for child in self._children:
            child.end()

    # --- giving calls ---------------------------------------------------------------------------------

    def start(self, record: CallRecord) -> None:
        """Answer a call as soon as a worker is free for it."""
        self._waiting.add(record)
        self.budget.hand_out()

    def _most(self) -> int:
        return self.budget.most

    def _taken(self) -> Iterable[CallRecord]:
        return self.budget.taken()

    @property
    def size(self) -> int:
        """The number of workers that live, without those that must end."""
        return len(self._busy) + len(self._idle) + len(self._starting)

    @property
    def lacks_workers(self) -> bool:
        """True while more calls wait than there are idle or starting workers."""
        is_more = len(self._idle) + len(self._starting) < len(self._waiting)
        return is_more and self._waiting.has_but(self._full())

    def give_to_idle(self) -> None:
        """Give waiting calls to idle workers, as far as the budget allows."""
        while self._idle and self.budget.may_work and self._waiting.has_but(full := self._full()):
            self._give(self._idle.pop(), self._waiting.next(full))

    def retire_one(self) -> bool:
        """End the least recently used idle worker; False if none is idle."""
        if idle := self._idle[:1]:
            self._retire(idle[0])
        return bool(idle)

    def start_worker(self) -> None:
        """Start a worker; if that fails, the next call in turn is answered with the error."""
        confined = self._confined
        environment = None if confined is None else {**small_environment(), **dict(confined.environment)}
        words = worker_words(self._limits.worker_memory, confined)
        try:
            child = Child(self._loop, self, words, environment)
        except OSError as error:
            self._fail(Outcome(problem=Failure("no-worker", f"a worker cannot be started: {error}")))
            return
        self._children.add(child)
        self._starting.add(child)
        if self._reaper is not None:
            self._reaper.guard(child.pid)
        limit = self._limits.worker_start
        child.after(limit, partial(child.kill, f"took more than {limit:g} s"))

    def _give(self, child: Child, record: CallRecord) -> None:
        self.budget.serve(self)
        child.take(record)
        record.give_to(child)
        self._busy.add(record)
        if record.begin(self._expire):
            self.go(record)

    def go(self, record: CallRecord) -> None:
        """Send a call to its worker."""
        child: Child = record.place
        try:
            child.requests.send(pack(frame_of(record.call, self._limits)))
        except FrameError as error:
            self._end(record, Outcome(problem=Failure(error.kind, str(error), final=error.final)))

    def _end(self, record: CallRecord, outcome: Outcome) -> None:
        """Answer a call whose worker is free again."""
        child = self._take(record)
        self._set_free(child)
        record.answer(outcome)
        self.budget.hand_out()

    def _take(self, record: CallRecord) -> Child:
        """Release a call that is about to be answered from its worker."""
        child: Child = record.place
        child.take(None)
        self._busy.discard(record)
        return child

    def _set_free(self, child: Child) -> None:
        if child.is_stale:
            child.retire()
            return
        self._idle.append(child)
        child.after(self._limits.worker_idle, partial(self._retire, child))

    def _retire(self, child: Child) -> None:
        self._idle.remove(child)
        child.retire()

    def _stop(self, record: CallRecord, outcome: Outcome) -> None:
        """Kill its worker."""
        self._take(record).kill()
        self.budget.count_restart()
        record.answer(outcome)
        self.budget.hand_out()

    def _fail(self, outcome: Outcome) -> None:
        """Answer the next call in turn, for which a worker should have started."""
        if self._waiting:
            self._waiting.next().answer(outcome)

    # --- messages of children -------------------------------------------------------------------------

    def child_said(self, child: Child, message: WorkerMessage) -> None:
        """Handle a message of a worker: it is ready, reports progress, or answers."""
        record = child.record
        if isinstance(message, Ready):
            if child in self._starting:
                self._starting.discard(child)
                child.stop_timer()
                self._set_free(child)
                self.give_to_idle()  # it answers at least one call before it may end for another pool
                self.budget.hand_out()
        elif record is None or message.call != record.call.id:
            return
        elif isinstance(message, Progressed):
            record.call.progress(message.done, message.total)
        elif isinstance(message, Logged):
            call = record.call
            log_record(message.logger, message.level, message.message, call.id, call.run, call.step)
        else:
            self._end(record, message.outcome)

    def child_printed(self, child: Child, line: str) -> None:
        """Log a line that an action printed."""
        if child.record is not None:
            call = child.record.call
            log_print(line, call.id, call.run, call.step)
        else:
            log_print(line, "", 0, "")

    def child_ended(self, child: Child, how: str) -> None:
        """Answer the call of a worker that died, or for which it was starting; start another if needed."""
        self._children.discard(child)
        is_lost = self._reaper is not None and self._reaper.has_killed(child.pid)
        if self._reaper is not None:
            self._reaper.unguard(child.pid)
        last_lines = "\n".join(child.prints.last)
        record, was_starting = child.record, child in self._starting
        if record is not None or was_starting or child in self._idle:
            self.budget.count_restart()
        self._starting.discard(child)
        if child in self._idle:
            self._idle.remove(child)
        if record is not None:
            crash = Failure("crashed", f"the worker {how}", last_lines)
            self._take(record)
            record.answer(LOST if is_lost else Outcome(problem=crash))
        elif was_starting:
            crash = Failure("crashed", f"the worker, still starting, {how}", last_lines)
            self._fail(LOST if is_lost else Outcome(problem=crash))
        self.budget.hand_out()

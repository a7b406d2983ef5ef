"""Calls answered in child programs, and transforms, which may loop (N32, N33).

A worker answers one call at a time. One that outlives its time limit, or whose call is given up, is killed
with all that it started; the crash of one costs its call alone, and another is started when there is need.
"""

from __future__ import annotations

import asyncio
from functools import partial

from narval.engines.events import Failure
from narval.runtime.calls.backend import ABANDONED, Outcome, RunningCall
from narval.runtime.calls.fair_queue import Waiting
from narval.runtime.calls.output_capture import log_print
from narval.runtime.calls.workers.child import Child
from narval.runtime.calls.workers.frames import (
    CallFrame,
    FrameError,
    Progressed,
    Ready,
    Said,
    pack,
    packed_input,
)
from narval.runtime.home.settings import CallLimits


class Workers:
    """At most `limits.workers` programs, each started when it is first needed."""

    given_up = 0

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: CallLimits) -> None:
        self._loop, self._limits = loop, limits
        self._waiting = Waiting()
        self._starting: dict[Child, asyncio.TimerHandle] = {}
        self._idle: dict[Child, asyncio.TimerHandle] = {}
        self._busy: dict[Child, RunningCall] = {}
        self._places: dict[RunningCall, Child] = {}
        self._children: set[Child] = set()
        self._stale: set[Child] = set()
        self.restarts = 0

    @property
    def queued(self) -> int:
        """Calls that wait for a worker."""
        return len(self._waiting)

    def limit(self, limits: CallLimits) -> None:
        """Keep to other limits from the next call on."""
        self._limits = limits
        self._hand_out()

    def renew(self) -> None:
        """Let workers go that may have imported what has changed: now those that are idle, the others when
        their call has ended. A call is not disturbed.
        """
        self._stale.update(self._idle, self._busy)
        for child, timer in list(self._idle.items()):
            timer.cancel()
            self._retire(child)

    def start(self, work: RunningCall) -> None:
        """Answer a call as soon as a worker is free."""
        self._waiting.add(work)
        self._hand_out()

    def abandon(self, work: RunningCall) -> None:
        """Take a call out of the queue, or kill its worker."""
        if work in self._places:
            self._kill(work, ABANDONED)
        else:
            self._waiting.remove(work)
            work.answer(ABANDONED)

    async def close(self) -> None:
        """Kill all workers."""
        self._waiting.clear()
        for timer in (*self._starting.values(), *self._idle.values()):
            timer.cancel()
        for child in self._children:
            child.end()

    # --- giving work ----------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        while self._waiting and self._idle:
            child, timer = self._idle.popitem()
            timer.cancel()
            self._give(child, self._waiting.next())
        while len(self._starting) < min(len(self._waiting), self._limits.workers - len(self._busy)):
            try:
                child = Child(self._loop, self, self._limits.worker_memory)
            except OSError as error:
                self._fail(Failure("no-worker", f"a worker cannot be started: {error}"))
                continue
            self._children.add(child)
            limit = self._limits.worker_start
            self._starting[child] = self._loop.call_later(limit, child.kill, f"took more than {limit:g} s")

    def _give(self, child: Child, work: RunningCall) -> None:
        child.last_words.clear()
        self._busy[child] = work
        self._places[work] = child
        work.begin(self._loop, self._expire, partial(self._send, child, work))

    def _send(self, child: Child, work: RunningCall) -> None:
        try:
            child.send(pack(self._asked(work)))
        except FrameError as error:
            del self._busy[child], self._places[work]
            self._rest(child)
            work.answer(Outcome(problem=Failure(error.kind, str(error), final=error.final)))
            self._hand_out()

    def _asked(self, work: RunningCall) -> CallFrame:
        task = work.task
        return CallFrame(
            call=task.call,
            run=task.run,
            step=task.step,
            action=task.action,
            attempt=task.attempt,
            is_transform=task.where == "transform",
            path=task.module_path,
            function=task.function_name,
            source=task.source,
            inputs={id: packed_input(value) for id, value in task.inputs.items()},
            deadline=work.call.deadline,
            home=None if task.home is None else str(task.home),
            folders=self._limits.folders,
            memory=self._limits.transform_memory,
            payload=None if task.payload is None else dict(task.payload),
        )

    def _rest(self, child: Child) -> None:
        if child in self._stale:
            child.retire()
            return
        self._idle[child] = self._loop.call_later(self._limits.worker_idle, self._retire, child)

    def _retire(self, child: Child) -> None:
        if self._idle.pop(child, None) is not None:
            child.retire()

    def _expire(self, work: RunningCall) -> None:
        self._kill(work, work.expired())

    def _kill(self, work: RunningCall, outcome: Outcome) -> None:
        child = self._places.pop(work)
        del self._busy[child]
        self.restarts += 1
        child.kill()
        work.answer(outcome)
        self._hand_out()

    def _fail(self, problem: Failure) -> None:
        """Answer the call whose turn it is: it is the one for which a worker was to be started."""
        if self._waiting:
            self._waiting.next().answer(Outcome(problem=problem))

    # --- what children say ----------------------------------------------------------------------------

    def child_said(self, child: Child, message: Said) -> None:
        """A worker is ready, tells how far it is, or answers."""
        if isinstance(message, Ready):
            timer = self._starting.pop(child, None)
            if timer is not None:
                timer.cancel()
                self._rest(child)
                self._hand_out()
            return
        work = self._busy.get(child)
        if work is None or message.call != work.task.call:
            return
        if isinstance(message, Progressed):
            work.call.progressed = (message.done, message.total)
            return
        del self._busy[child], self._places[work]
        self._rest(child)
        work.answer(Outcome(message.elements, message.problem, value=message.value))
        self._hand_out()

    def child_printed(self, child: Child, line: str) -> None:
        """What an action printed goes to the log."""
        work = self._busy.get(child)
        if work is not None:
            log_print(line, work.task.call, work.task.run, work.task.step)
        else:
            log_print(line, "", 0, "")

    def child_ended(self, child: Child, how: str) -> None:
        """Who waited for a worker that died is told why; nobody else is concerned."""
        self._children.discard(child)
        self._stale.discard(child)
        last_words = "\n".join(child.last_words)
        work = self._busy.pop(child, None)
        starting, idle = self._starting.pop(child, None), self._idle.pop(child, None)
        for timer in (starting, idle):
            if timer is not None:
                timer.cancel()
        self.restarts += any(each is not None for each in (work, starting, idle))
        if work is not None:
            del self._places[work]
            work.answer(Outcome(problem=Failure("crashed", f"the worker {how}", last_words)))
        elif starting is not None:
            self._fail(Failure("crashed", f"the worker, still starting, {how}", last_words))
        self._hand_out()

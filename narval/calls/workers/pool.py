"""Calls answered in child programs, and transforms, which may loop (N32, N33).

A worker answers one call at a time. One that outlives its time limit, or whose call is given up, is killed
with all that it started; the crash of one costs its call alone, and another is started when there is need.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial

from msgspec.structs import replace

from narval.calls.backend import LOST, Outcome, RunningCall
from narval.calls.context import CallContext
from narval.calls.fair_queue import QueuedBackend
from narval.calls.output_capture import log_print
from narval.calls.programs.reaper_client import ReaperClient
from narval.calls.workers.child import Child
from narval.calls.workers.frames import (
    Allowance,
    CallFrame,
    FrameError,
    Progressed,
    Ready,
    WorkerMessage,
    pack,
    packed_input,
)
from narval.core.engines.events import Failure
from narval.files.settings import CallLimits
from narval.system.clock import RunClock, SystemClock


class Workers(QueuedBackend):
    """At most `limits.workers` programs, each started when it is first needed."""

    given_up = 0

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: CallLimits, reaper: ReaperClient | None = None
    ) -> None:
        super().__init__("workers")
        self._loop, self._limits, self._reaper = loop, limits, reaper
        self._starting: dict[Child, asyncio.TimerHandle] = {}
        self._idle: dict[Child, asyncio.TimerHandle] = {}
        self._busy: dict[Child, RunningCall] = {}
        self._children_by_call: dict[RunningCall, Child] = {}
        self._children: set[Child] = set()
        self._stale: set[Child] = set()
        self.restarts = 0

    def limit(self, limits: CallLimits) -> None:
        """Keep to other limits from the next call on."""
        self._limits = limits
        self._hand_out()

    def renew(self) -> None:
        """Retire the workers, which may have imported modules that have changed: those that are idle now, the
        others when their call has ended. A call is not disturbed.
        """
        self._stale.update(self._idle, self._busy)
        for child, timer in list(self._idle.items()):
            timer.cancel()
            self._retire(child)

    async def close(self) -> None:
        """Kill all workers."""
        self._waiting.clear()
        for timer in (*self._starting.values(), *self._idle.values()):
            timer.cancel()
        for child in self._children:
            child.end()

    # --- giving calls ---------------------------------------------------------------------------------

    def _most(self) -> int:
        return self._limits.workers

    def _taken(self) -> Collection[RunningCall]:
        return self._children_by_call

    def _hand_out(self) -> None:
        while self._waiting:
            full = self._full()
            if not self._waiting.has_but(full):
                return
            if not self._idle:
                break
            child, timer = self._idle.popitem()
            timer.cancel()
            self._give(child, self._waiting.next(full))
        while len(self._starting) < min(len(self._waiting), self._limits.workers - len(self._busy)):
            try:
                child = Child(self._loop, self, self._limits.worker_memory)
            except OSError as error:
                self._fail(Outcome(problem=Failure("no-worker", f"a worker cannot be started: {error}")))
                continue
            self._children.add(child)
            if self._reaper is not None:
                self._reaper.guard(child.pid)
            limit = self._limits.worker_start
            self._starting[child] = self._loop.call_later(limit, child.kill, f"took more than {limit:g} s")

    def _give(self, child: Child, running: RunningCall) -> None:
        child.prints.last.clear()
        self._busy[child] = running
        self._children_by_call[running] = child
        running.begin(self._loop, self._expire, partial(self._send, child, running))

    def _send(self, child: Child, running: RunningCall) -> None:
        try:
            child.send(pack(frame_of(running.call, self._limits)))
        except FrameError as error:
            del self._busy[child], self._children_by_call[running]
            self._set_free(child)
            running.answer(Outcome(problem=Failure(error.kind, str(error), final=error.final)))
            self._hand_out()

    def _set_free(self, child: Child) -> None:
        if child in self._stale:
            child.retire()
            return
        self._idle[child] = self._loop.call_later(self._limits.worker_idle, self._retire, child)

    def _retire(self, child: Child) -> None:
        if self._idle.pop(child, None) is not None:
            child.retire()

    def _stop(self, running: RunningCall, outcome: Outcome) -> None:
        """Kill its worker."""
        child = self._children_by_call.pop(running)
        del self._busy[child]
        self.restarts += 1
        child.kill()
        running.answer(outcome)
        self._hand_out()

    def _fail(self, outcome: Outcome) -> None:
        """Answer the call whose turn it is: it is the one for which a worker was to be started."""
        if self._waiting:
            self._waiting.next().answer(outcome)

    # --- what children say ----------------------------------------------------------------------------

    def child_said(self, child: Child, message: WorkerMessage) -> None:
        """Take a message of a worker: it is ready, reports progress, or answers."""
        if isinstance(message, Ready):
            timer = self._starting.pop(child, None)
            if timer is not None:
                timer.cancel()
                self._set_free(child)
                self._hand_out()
            return
        running = self._busy.get(child)
        if running is None or message.call != running.call.id:
            return
        if isinstance(message, Progressed):
            running.call.progress(message.done, message.total)
            return
        del self._busy[child], self._children_by_call[running]
        self._set_free(child)
        running.answer(Outcome(message.elements, message.problem, value=message.value))
        self._hand_out()

    def child_printed(self, child: Child, line: str) -> None:
        """Log a line that an action printed."""
        running = self._busy.get(child)
        if running is not None:
            log_print(line, running.call.id, running.call.run, running.call.step)
        else:
            log_print(line, "", 0, "")

    def child_ended(self, child: Child, how: str) -> None:
        """Answer the call of a worker that died, or for which it was started; start another if needed."""
        self._children.discard(child)
        is_lost = self._reaper is not None and self._reaper.has_killed(child.pid)
        if self._reaper is not None:
            self._reaper.unguard(child.pid)
        self._stale.discard(child)
        last_lines = "\n".join(child.prints.last)
        running = self._busy.pop(child, None)
        starting, idle = self._starting.pop(child, None), self._idle.pop(child, None)
        for timer in (starting, idle):
            if timer is not None:
                timer.cancel()
        self.restarts += any(was is not None for was in (running, starting, idle))
        if running is not None:
            del self._children_by_call[running]
            crash = Failure("crashed", f"the worker {how}", last_lines)
            running.answer(LOST if is_lost else Outcome(problem=crash))
        elif starting is not None:
            crash = Failure("crashed", f"the worker, still starting, {how}", last_lines)
            self._fail(LOST if is_lost else Outcome(problem=crash))
        self._hand_out()


def frame_of(call: CallContext, limits: CallLimits) -> CallFrame:
    """The frame by which a call goes to a worker."""
    clock = call.clock or RunClock(SystemClock())
    return CallFrame(
        call=call.id,
        run=call.run,
        step=call.step,
        attempt=call.attempt,
        target=replace(call.target, function=None),
        inputs={id: packed_input(value) for id, value in call.inputs.items()},
        deadline=call.deadline,
        home=None if call.home is None else str(call.home),
        allowance=Allowance(limits.folders, limits.transform_memory, call.fetch_allow, call.services),
        payload=call.payload,
        zone=clock.zone,
        moment=clock.standing(),
        agent=call.agent,
    )

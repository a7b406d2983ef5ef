"""Calls answered in child programs, and transforms, which may loop (N32, N33).

A worker answers one call at a time. If its call exceeds its time limit, or is given up, the worker is killed
with all that it started. The crash of a worker costs only its call, and another is started when it is needed.
"""

from __future__ import annotations

import asyncio
from functools import partial

from msgspec.structs import replace

from narval.calls.context import CallContext
from narval.calls.fair_queue import QueuedBackend
from narval.calls.output_capture import log_print
from narval.calls.programs.commands import small_environment
from narval.calls.programs.reaper_client import ReaperClient
from narval.calls.record import LOST, CallRecord, Outcome
from narval.calls.workers.child import Child, worker_words
from narval.calls.workers.confined import Confined
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
    """At most `limits.workers` programs, each started when it is first needed, and confined if `confined` is
    given.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: CallLimits,
        reaper: ReaperClient | None = None,
        confined: Confined | None = None,
    ) -> None:
        super().__init__("workers")
        self._confined = confined
        self._loop, self._limits, self._reaper = loop, limits, reaper
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._starting: set[Child] = set()
        self.restarts = 0

    def limit(self, limits: CallLimits) -> None:
        """Apply other limits from the next call on."""
        self._limits = limits
        self._hand_out()

    def renew(self) -> None:
        """Retire the workers, which may have imported changed modules: idle ones now, the others when their
        call has ended. No call is disturbed.
        """
        for child in self._children - self._starting:
            child.outdate()
        for child in tuple(self._idle):
            self._retire(child)

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

    def _most(self) -> int:
        return self._limits.workers

    def _hand_out(self) -> None:
        while self._waiting:
            full = self._full()
            if not self._waiting.has_but(full):
                return
            if not self._idle:
                break
            self._give(self._idle.pop(), self._waiting.next(full))
        while len(self._starting) < min(len(self._waiting), self._limits.workers - len(self._busy)):
            try:
                child = Child(
                    self._loop,
                    self,
                    worker_words(self._limits.worker_memory, self._confined),
                    None
                    if self._confined is None
                    else {**small_environment(), **dict(self._confined.environment)},
                )
            except OSError as error:
                self._fail(Outcome(problem=Failure("no-worker", f"a worker cannot be started: {error}")))
                continue
            self._children.add(child)
            self._starting.add(child)
            if self._reaper is not None:
                self._reaper.guard(child.pid)
            limit = self._limits.worker_start
            child.after(limit, partial(child.kill, f"took more than {limit:g} s"))

    def _give(self, child: Child, record: CallRecord) -> None:
        child.take(record)
        record.give_to(child)
        self._busy.add(record)
        record.begin(partial(self._send, child, record), self._expire)

    def _send(self, child: Child, record: CallRecord) -> None:
        try:
            child.send(pack(frame_of(record.call, self._limits)))
        except FrameError as error:
            self._end(record, Outcome(problem=Failure(error.kind, str(error), final=error.final)))

    def _end(self, record: CallRecord, outcome: Outcome) -> None:
        """Answer a call whose worker is free again."""
        child = self._take(record)
        self._set_free(child)
        record.answer(outcome)
        self._hand_out()

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
        self.restarts += 1
        record.answer(outcome)
        self._hand_out()

    def _fail(self, outcome: Outcome) -> None:
        """Answer the call whose turn it is, for which a worker was to be started."""
        if self._waiting:
            self._waiting.next().answer(outcome)

    # --- what children say ----------------------------------------------------------------------------

    def child_said(self, child: Child, message: WorkerMessage) -> None:
        """Take a message of a worker: it is ready, reports progress, or answers."""
        record = child.record
        if isinstance(message, Ready):
            if child in self._starting:
                self._starting.discard(child)
                child.stop_timer()
                self._set_free(child)
                self._hand_out()
        elif record is None or message.call != record.call.id:
            return
        elif isinstance(message, Progressed):
            record.call.progress(message.done, message.total)
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
        """Answer the call of a worker that died, or for which it was started; start another if needed."""
        self._children.discard(child)
        is_lost = self._reaper is not None and self._reaper.has_killed(child.pid)
        if self._reaper is not None:
            self._reaper.unguard(child.pid)
        last_lines = "\n".join(child.prints.last)
        record, was_starting = child.record, child in self._starting
        self.restarts += record is not None or was_starting or child in self._idle
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
        allowance=Allowance(limits.xslt_folders, limits.transform_memory, call.fetch_allow, call.services),
        payload=call.payload,
        zone=clock.zone,
        moment=clock.standing(),
        agent=call.agent,
        traceparent=call.traceparent,
    )

"""Calls answered in the daemon: in its loop by coroutines, `async def` actions and sources, or in threads
(N33, N36).

The threads are daemons, so that none keeps the program from ending. A thread cannot be stopped. One that
exceeds its time limit is given up and replaced; it is counted while it lives, and no run gets its late
answer. All bookkeeping is done on the loop's thread, so there are no locks.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import types
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextvars import copy_context
from queue import SimpleQueue
from time import monotonic
from typing import Any

import msgspec

from narval.calls.backend import Backend, QueuedBackend
from narval.calls.context import CallContext, now
from narval.calls.conversion import (
    LONG,
    BadOutputError,
    answer,
    arguments,
    elements,
    failure,
    file_of,
    function_of,
    log_long,
)
from narval.calls.output_capture import end_prints
from narval.calls.programs.process_group import EndedWithLease
from narval.calls.record import ABANDONED, LOST, CallRecord, Outcome
from narval.core.elements.element import Element
from narval.core.elements.own_elements import read_error
from narval.core.engines.events import Failure, OutputElement
from narval.core.source.secrets import without_secrets
from narval.system.exits import ends_program

log = logging.getLogger("narval.sources")

MOST_TROUBLES = 1_000
"""The most troubles that are kept. Those of calls that are never made again are not ended."""


class Trouble(msgspec.Struct, frozen=True):
    """The reason why a source cannot do its work, and since when."""

    since: float
    kind: str
    message: str


class SourceTroubles:
    """The sources that are in trouble now, by the ids of their calls, which stay the same when these are
    tried again.

    A source is in trouble when it yields only errors, or fails. It has recovered when it yields something
    else, or says so. Each cause is logged once. Reports on a call are made within its context.
    """

    def __init__(self) -> None:
        self._of: dict[str, Trouble] = {}

    def of(self, call: str) -> Trouble | None:
        """The trouble of a source; None while it works."""
        return self._of.get(call)

    @property
    def calls(self) -> Iterable[str]:
        """The ids of the calls of sources in trouble."""
        return self._of

    def hear(self, call: CallContext, outputs: Sequence[OutputElement]) -> None:
        """Examine what a source yields. An error with a `key` is about one thing, not about the source: it is
        logged when it is recorded, which happens once.
        """
        made = [Element(0, output.xml) for output in outputs]
        errors = [element for element in made if element.name == "error"]
        of_one_thing = any(element.attributes.get("key") for element in errors)
        if made and len(errors) == len(made) and not of_one_thing:
            kind, message, _ = read_error(made[-1])
            self.begin(call, Failure(kind, message))
        elif made:
            self.end(call)

    def begin(self, call: CallContext, failure: Failure) -> None:
        """Record what keeps a source from its work; log a cause that differs from the last."""
        kind, message = failure.kind, " ".join(without_secrets(failure.message).split())
        before = self._of.get(call.id)
        if before is None or (before.kind, before.message) != (kind, message):
            since = now().timestamp() if before is None else before.since
            self._of[call.id] = Trouble(since, kind, message)
            log.warning("%s of run %d: %s: %s", call.target.action, call.run, kind, message)
        if len(self._of) > MOST_TROUBLES:
            del self._of[next(iter(self._of))]

    def end(self, call: CallContext) -> None:
        """Record that a source works again, or has ended."""
        trouble = self._of.pop(call.id, None)
        if trouble is not None:
            log.info("%s of run %d: that is over: %s", call.target.action, call.run, trouble.kind)


_END = object()
"""The end marker of a source."""


@types.coroutine
def _timed(awaitable: Awaitable[Any], call: CallContext) -> Generator[Any, Any, Any]:
    """Await something for a call; log each time it blocks the loop for `LONG` seconds without an await."""
    steps, sent, error = awaitable.__await__(), None, None
    while True:
        began = monotonic()
        try:
            waits_for = steps.send(sent) if error is None else steps.throw(error)
        except StopIteration as end:
            return end.value
        finally:
            if (took := monotonic() - began) >= LONG:
                log_long(call, took, "without an await", "what blocks belongs into asyncio.to_thread(…)")
        try:
            sent, error = (yield waits_for), None
        except BaseException as raised:  # a cancellation is for the awaited object
            sent, error = None, raised


class Coroutines(Backend):
    """The calls answered by coroutines: one task of the loop for each.

    A call that must end is cancelled, and then has `patience` seconds to clean up. One that does not end is
    given up, and counted until it does.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self._loop, self._patience = loop, patience
        self._tasks: dict[asyncio.Task[Outcome], CallRecord] = {}
        self.troubles = SourceTroubles()

    def start(self, record: CallRecord) -> None:
        """Answer a call; it begins in the loop's next round."""
        if record.begin(self.expire):
            self.go(record)

    def go(self, record: CallRecord) -> None:
        """Create the task of a call."""
        coroutine = self._answer(record)
        task = self._loop.create_task(
            coroutine, name=f"narval call {record.call.id}", context=record.call.context()
        )
        record.give_to(task)
        self._tasks[task] = record
        task.add_done_callback(self._ended)

    def abandon(self, record: CallRecord) -> None:
        """Cancel a call."""
        self._stop(record, ABANDONED)

    async def close(self) -> None:
        """Cancel all calls under way, and let them clean up for at most `patience` seconds."""
        for task, record in self._tasks.items():
            record.stop_timer()
            if record.verdict is None:
                task.cancel()
        if self._tasks:
            _, refusing = await asyncio.wait(self._tasks, timeout=self._patience)
            for task in refusing:
                asyncio._unregister_task(task)  # else the loop would wait for it for ever when it is closed
                task._log_destroy_pending = False  # type: ignore[attr-defined]

    async def _answer(self, record: CallRecord) -> Outcome:
        """Await the outcome of a call; only a cancellation and Ctrl-C pass through."""
        try:
            if record.call.is_source:
                await self._stream(record)
                self.troubles.end(record.call)
                return Outcome()
            coroutine = function_of(record.call.target)(**arguments(record.call.inputs))
            return Outcome(elements(await _timed(coroutine, record.call)))
        except asyncio.CancelledError:
            raise
        except EndedWithLease:
            return LOST
        except BaseException as error:
            if ends_program(error):
                raise
            problem = failure(error, file_of(record.call.target), record.call.home)
            if record.call.is_source:
                self.troubles.begin(record.call, problem)
            return Outcome(problem=problem)
        finally:
            end_prints(record.call.id)

    async def _stream(self, record: CallRecord) -> None:
        """Pass on the elements that a source yields; it continues when they are recorded."""
        record.call.hear_of_recovery(self.troubles.end)
        generator = function_of(record.call.target)(**arguments(record.call.inputs))
        if not hasattr(generator, "__aiter__"):
            raise BadOutputError(f"a source is an async generator, got a {type(generator).__name__}")
        try:
            results = aiter(generator)
            while (result := await _timed(anext(results, _END), record.call)) is not _END:
                if record.verdict is not None:  # it swallowed the cancellation
                    break
                outputs = elements(result)
                self.troubles.hear(record.call, outputs)
                # a source that keeps yielding nothing must not block the loop either
                await (record.listener.produced(record, outputs) if outputs else asyncio.sleep(0))
        finally:
            await generator.aclose()

    def expire(self, record: CallRecord) -> None:
        """End a call that has exceeded its time limit."""
        self._stop(record, record.expired())

    def _stop(self, record: CallRecord, verdict: Outcome) -> None:
        self.troubles.end(record.call)
        if record.place is None:  # it is being announced
            record.answer(verdict)
        elif record.end_with(verdict):
            record.place.cancel()
            record.after(self._patience, self._give_up)

    def _give_up(self, record: CallRecord) -> None:
        if not record.is_over:
            record.outlive()
            record.answer(record.verdict or ABANDONED)

    @property
    def given_up(self) -> int:
        """The number of abandoned calls whose code still runs."""
        return sum(record.is_over for record in self._tasks.values())

    def _ended(self, task: asyncio.Task[Outcome]) -> None:
        record = self._tasks.pop(task)
        if record.outlives:
            record.end_late(None if task.cancelled() or task.exception() is not None else task.result())
        elif record.verdict is not None:
            record.answer(record.verdict)
        elif task.cancelled():
            record.answer(Outcome(problem=Failure("CancelledError", "the action cancelled itself")))
        elif task.exception() is None:
            record.answer(task.result())


# --- threads --------------------------------------------------------------------------------------------


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

"""Calls answered in the loop by coroutines: `async def` actions, and sources (N33, N36)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

import msgspec

from narval.calls.backend import ABANDONED, LOST, Outcome, RunningCall
from narval.calls.context import CallContext, now
from narval.calls.conversion import BadOutputError, arguments, elements, failure, file_of, function_of
from narval.calls.output_capture import end_prints
from narval.calls.programs.commands import EndedWithLease
from narval.core.elements.element import Element
from narval.core.elements.error_element import read_error
from narval.core.engines.events import Failure, OutputElement
from narval.core.source.secrets import without_secrets

MOST_TROUBLES = 1_000
"""The most that are kept: of calls that are never made again nobody says that they are over."""

log = logging.getLogger("narval.sources")


class Trouble(msgspec.Struct, frozen=True):
    """The reason why a source cannot do its work, and since when."""

    since: float
    kind: str
    message: str


class SourceTroubles:
    """The sources that are in trouble now; each by the id of its call, the same when it is tried again.

    One is in trouble when it gives errors alone, or fails; it is at work again when it gives something else,
    or says so. The log is told once for each cause. What tells of a call is done within its context.
    """

    def __init__(self) -> None:
        self._of: dict[str, Trouble] = {}

    def of(self, call: str) -> Trouble | None:
        """The trouble of a source; None while it is at work."""
        return self._of.get(call)

    def hear(self, call: CallContext, given: Sequence[OutputElement]) -> None:
        """Hear what a source gives."""
        made = [Element(0, output.xml) for output in given]
        if made and all(element.name == "error" for element in made):
            kind, message, _ = read_error(made[-1])
            self.begin(call, Failure(kind, message))
        elif made:
            self.end(call)

    def begin(self, call: CallContext, failure: Failure) -> None:
        """Note what keeps a source from its work; the log is told of another cause than before."""
        kind, message = failure.kind, " ".join(without_secrets(failure.message).split())
        before = self._of.get(call.id)
        if before is None or (before.kind, before.message) != (kind, message):
            since = now().timestamp() if before is None else before.since
            self._of[call.id] = Trouble(since, kind, message)
            log.warning("%s of run %d: %s: %s", call.target.action, call.run, kind, message)
        if len(self._of) > MOST_TROUBLES:
            del self._of[next(iter(self._of))]

    def end(self, call: CallContext) -> None:
        """Note that a source is at work again, or is over."""
        trouble = self._of.pop(call.id, None)
        if trouble is not None:
            log.info("%s of run %d: that is over: %s", call.target.action, call.run, trouble.kind)


class Coroutines:
    """A task of the loop for each call.

    A call that is to end is cancelled, and then has `patience` seconds to clean up; one that refuses is given
    up, and counted until it ends.
    """

    queued = 0

    def __init__(self, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        self._loop, self._patience = loop, patience
        self._running: dict[RunningCall, asyncio.Task[Outcome]] = {}
        self._verdicts: dict[RunningCall, Outcome] = {}
        self._patiences: dict[RunningCall, asyncio.TimerHandle] = {}
        self.given_up = 0
        self.troubles = SourceTroubles()

    def start(self, running: RunningCall) -> None:
        """Answer a call; it begins at the loop's next round."""
        running.begin(self._loop, self.expire, partial(self._run, running))

    def _run(self, running: RunningCall) -> None:
        coroutine = self._answer(running)
        task = self._loop.create_task(
            coroutine, name=f"narval call {running.call.id}", context=running.call.context()
        )
        self._running[running] = task
        task.add_done_callback(partial(self._ended, running))

    def abandon(self, running: RunningCall) -> None:
        """Cancel a call."""
        self._stop(running, ABANDONED)

    async def close(self) -> None:
        """Cancel all calls under way, and let them clean up for `patience` seconds at most."""
        for running, task in self._running.items():
            if running not in self._verdicts:
                task.cancel()
        for timer in self._patiences.values():
            timer.cancel()
        if self._running:
            _, refusing = await asyncio.wait(self._running.values(), timeout=self._patience)
            for task in refusing:
                asyncio._unregister_task(task)  # else the loop would wait for it when it is closed, for ever
                task._log_destroy_pending = False  # type: ignore[attr-defined]

    async def _answer(self, running: RunningCall) -> Outcome:
        """Await the outcome of a call; only a cancellation and Ctrl-C pass through."""
        try:
            if running.call.is_source:
                await self._stream(running)
                self.troubles.end(running.call)
                return Outcome()
            return Outcome(elements(await function_of(running.call.target)(**arguments(running.call.inputs))))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except EndedWithLease:
            return LOST
        except BaseException as error:
            problem = failure(error, file_of(running.call.target), running.call.home)
            if running.call.is_source:
                self.troubles.begin(running.call, problem)
            return Outcome(problem=problem)
        finally:
            end_prints(running.call.id)

    async def _stream(self, running: RunningCall) -> None:
        """Hand on the elements that a source yields; it goes on when they are recorded."""
        running.call.hear_of_recovery(self.troubles.end)
        generator = function_of(running.call.target)(**arguments(running.call.inputs))
        if not hasattr(generator, "__aiter__"):
            raise BadOutputError(f"a source is an async generator, got a {type(generator).__name__}")
        try:
            async for result in generator:
                if running in self._verdicts:  # it swallowed the cancellation
                    break
                given = elements(result)
                self.troubles.hear(running.call, given)
                # a source that yields nothing, again and again, must not hold up the loop either
                await (running.produced(given) if given else asyncio.sleep(0))
        finally:
            await generator.aclose()

    def expire(self, running: RunningCall) -> None:
        """End a call that has outlived its time limit."""
        self._stop(running, running.expired())

    def _stop(self, running: RunningCall, verdict: Outcome) -> None:
        self.troubles.end(running.call)
        if running not in self._running:
            running.answer(verdict)
        elif running not in self._verdicts:
            self._verdicts[running] = verdict
            self._running[running].cancel()
            self._patiences[running] = self._loop.call_later(self._patience, self._give_up, running)

    def _give_up(self, running: RunningCall) -> None:
        if running in self._running and not running.over:
            self.given_up += 1
            running.answer(self._verdicts[running])

    def _ended(self, running: RunningCall, task: asyncio.Task[Outcome]) -> None:
        del self._running[running]
        verdict = self._verdicts.pop(running, None)
        if verdict is not None:
            self._patiences.pop(running).cancel()
        if running.over:
            self.given_up -= 1
        elif verdict is not None:
            running.answer(verdict)
        elif task.cancelled():
            running.answer(Outcome(problem=Failure("CancelledError", "the action cancelled itself")))
        elif task.exception() is None:
            running.answer(task.result())

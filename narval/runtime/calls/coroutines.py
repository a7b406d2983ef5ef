"""Calls answered in the loop by coroutines: `async def` actions, and sources (N33, N36)."""

from __future__ import annotations

import asyncio
from functools import partial

from narval.engines.events import Failure
from narval.runtime.calls.backend import ABANDONED, Outcome, RunningCall
from narval.runtime.calls.conversion import BadOutputError, arguments, elements, file_of, function_of, problem
from narval.runtime.calls.output_capture import end_prints


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

    def start(self, work: RunningCall) -> None:
        """Answer a call; it begins at the loop's next round."""
        work.begin(self._loop, self.expire, partial(self._run, work))

    def _run(self, work: RunningCall) -> None:
        coroutine = self._answer(work)
        task = self._loop.create_task(
            coroutine, name=f"narval call {work.task.call}", context=work.call.context()
        )
        self._running[work] = task
        task.add_done_callback(partial(self._ended, work))

    def abandon(self, work: RunningCall) -> None:
        """Cancel a call."""
        self._stop(work, ABANDONED)

    async def close(self) -> None:
        """Cancel all that is under way, and let it clean up; what refuses to end holds nobody up."""
        for work, task in self._running.items():
            if work not in self._verdicts:
                task.cancel()
        for timer in self._patiences.values():
            timer.cancel()
        if self._running:
            _, refusing = await asyncio.wait(self._running.values(), timeout=self._patience)
            for task in refusing:
                asyncio._unregister_task(task)  # else the loop would wait for it when it is closed, for ever
                task._log_destroy_pending = False  # type: ignore[attr-defined]

    async def _answer(self, work: RunningCall) -> Outcome:
        """What a call comes to; only a cancellation and Ctrl-C pass through."""
        try:
            if work.task.where == "source":
                await self._stream(work)
                return Outcome()
            return Outcome(elements(await function_of(work.task)(**arguments(work.task.inputs))))
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:
            return Outcome(problem=problem(error, file_of(work.task), work.task.home))
        finally:
            end_prints(work.task.call)

    async def _stream(self, work: RunningCall) -> None:
        """Hand on what a source yields; it goes on when that has been recorded."""
        generator = function_of(work.task)(**arguments(work.task.inputs))
        if not hasattr(generator, "__aiter__"):
            raise BadOutputError(f"a source is an async generator, got a {type(generator).__name__}")
        try:
            async for thing in generator:
                if work in self._verdicts:  # it swallowed the cancellation
                    break
                given = elements(thing)
                # a source that yields nothing, again and again, must not hold up the loop either
                await (work.produced(given) if given else asyncio.sleep(0))
        finally:
            await generator.aclose()

    def expire(self, work: RunningCall) -> None:
        """The time of a call is over."""
        self._stop(work, work.expired())

    def _stop(self, work: RunningCall, verdict: Outcome) -> None:
        if work not in self._running:
            work.answer(verdict)
        elif work not in self._verdicts:
            self._verdicts[work] = verdict
            self._running[work].cancel()
            self._patiences[work] = self._loop.call_later(self._patience, self._give_up, work)

    def _give_up(self, work: RunningCall) -> None:
        if work in self._running and not work.over:
            self.given_up += 1
            work.answer(self._verdicts[work])

    def _ended(self, work: RunningCall, task: asyncio.Task[Outcome]) -> None:
        del self._running[work]
        verdict = self._verdicts.pop(work, None)
        if verdict is not None:
            self._patiences.pop(work).cancel()
        if work.over:
            self.given_up -= 1
        elif verdict is not None:
            work.answer(verdict)
        elif task.cancelled():
            work.answer(Outcome(problem=Failure("CancelledError", "the action cancelled itself")))
        elif task.exception() is None:
            work.answer(task.result())

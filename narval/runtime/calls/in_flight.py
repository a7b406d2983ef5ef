"""The calls in flight: handed to the executor, and not answered yet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from narval.engines.commands import Call
from narval.engines.events import CallStarting, Failure, OutputElement, Produced, Returned
from narval.runtime.agent.loop import Delivery, Request
from narval.runtime.agent.run import Run
from narval.runtime.calls.backend import Outcome
from narval.runtime.calls.context import CallContext
from narval.runtime.calls.executor import Executor

log = logging.getLogger("narval.perform")

Post = Callable[[Delivery | Request], None]
Finish = Callable[[Outcome], Outcome]
"""Makes of the outcome of a call the one that goes back to the engine."""


class CallsInFlight:
    """Starts calls of one agent, and posts their results as events."""

    def __init__(self, executor: Executor, post: Post) -> None:
        self._executor, self._post = executor, post
        self._ids: set[str] = set()
        self._on_over: Callable[[], None] = _ignore

    def busy(self) -> bool:
        """True if some call may yet go on by itself: a source that has caught up waits for the world."""
        return not all(self._executor.caught_up(id) for id in self._ids)

    def any(self) -> bool:
        """True while there is one."""
        return bool(self._ids)

    def when_over(self, tell: Callable[[], None]) -> None:
        """Call `tell` each time when the last of them is over."""
        self._on_over = tell

    def abandon_all(self) -> tuple[str, ...]:
        """Give up all of them; their ids."""
        ids = tuple(self._ids)
        for id in ids:
            self._executor.abandon(id)
        return ids

    def start(self, run: Run, call: Call, context: CallContext, finish: Finish | None = None) -> None:
        """Have the executor answer a call. Raises what keeps it from being made."""
        done = partial(self._done, run.eid, call.call, context.id, finish)
        announce = partial(self._announce, run, call.call, context.id) if call.on_restart == "error" else None
        self._ids.add(context.id)
        try:
            self._executor.start(context, done, partial(self._produced, run.eid, call.call), announce)
        except Exception:
            self._ids.discard(context.id)
            raise

    def _announce(self, run: Run, call: str, id: str, go: Callable[[], None]) -> None:
        """Begin a call that must not be made twice, once it is recorded that it begins (N29)."""
        self._post(Delivery(run.eid, CallStarting(0, 0.0, call), partial(self._begin, run, call, id, go)))

    def _begin(
        self, run: Run, call: str, id: str, go: Callable[[], None], error: BaseException | None
    ) -> None:
        asked = run.calls.get(call)
        if error is not None or asked is None or call in run.abandoned:
            if not self._executor.abandon(id):  # an inline call is under way nowhere
                self._drop(id)
            return
        try:
            go()
        except Exception as refusal:
            log.exception("call %s of run %d could not be begun", call, run.eid)
            self._post(Delivery(run.eid, refused(asked, internal_failure(refusal))))

    def _done(self, run: int, call: str, id: str, finish: Finish | None, outcome: Outcome) -> None:
        self._drop(id)
        self._post(Delivery(run, returned(call, outcome if finish is None else finish(outcome))))

    def _drop(self, id: str) -> None:
        self._ids.discard(id)
        if not self._ids:
            self._on_over()

    async def _produced(self, run: int, call: str, elements: list[OutputElement]) -> None:
        """Post the elements of a source; it goes on when they are recorded (N36)."""
        recorded = asyncio.get_running_loop().create_future()
        event = Produced(0, 0.0, call, tuple(elements))
        self._post(Delivery(run, event, partial(_settle, recorded)))
        await recorded


def returned(call: str, outcome: Outcome) -> Returned:
    """The event that brings an outcome back."""
    elements = tuple(outcome.elements)
    return Returned(0, 0.0, call, elements, (), outcome.problem, outcome.abandoned, outcome.value)


def refused(call: Call, failure: Failure) -> Returned:
    """The event that a call could not be made."""
    return Returned(0, 0.0, call.call, problem=failure)


def internal_failure(error: Exception) -> Failure:
    """The failure of a call that narval could not make."""
    return Failure("internal-error", f"narval could not make the call: {error!r}")


def _settle(recorded: asyncio.Future[None], error: BaseException | None) -> None:
    if recorded.done():
        return
    if error is None:
        recorded.set_result(None)
    else:
        recorded.set_exception(error)


def _ignore() -> None:
    """Do nothing: nobody waits for the last call."""

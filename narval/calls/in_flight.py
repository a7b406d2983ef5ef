"""The calls in flight: handed to the executor, and what comes of them not recorded yet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from narval.agent.agent import AgentState
from narval.agent.loop import Delivery, Request
from narval.agent.run import Run
from narval.calls.backend import Outcome
from narval.calls.context import CallContext
from narval.calls.executor import Executor
from narval.core.engines.commands import Call
from narval.core.engines.events import CallStarting, Event, Failure, OutputElement, Produced, Returned

log = logging.getLogger("narval.perform")

Post = Callable[[Delivery | Request], None]
Finish = Callable[[Outcome], Outcome]
"""Makes of the outcome of a call the one that goes back to the engine."""


class CallsInFlight:
    """The calls of one agent that the executor has, whether the agent is active or not (G7).

    They go by their outside ids. What comes of one is told the agent, and kept until it has recorded that.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._agent: AgentState | None = None
        self._post: Post | None = None
        self._activate: Callable[[], None] = _ignore
        self._resume: Callable[[int, str], None] | None = None
        self._calls: dict[str, Delivery | None] = {}
        """The latest report of each call, until it is recorded."""
        self._bound: dict[str, None] = {}
        """The calls whose outcome is made into another by what is in memory."""
        self._over: asyncio.Future[None] | None = None
        """None unless all are given up: done when they are over."""

    # --- of which activation they are -----------------------------------------------------------------

    def attach(self, agent: AgentState, post: Post, resume: Callable[[int, str], None]) -> None:
        """Let an activation have them: `post` gets what came meanwhile, and what will come; `resume` is told
        the run and the id of each call that is lost.
        """
        self._agent, self._post, self._activate, self._resume = agent, post, _ignore, resume
        for report in self._reports():
            post(report)

    def detach(self, activate: Callable[[], None]) -> None:
        """Let go of an activation that is given up; `activate` is called for each that reports meanwhile."""
        self._agent, self._post, self._activate, self._resume = None, None, activate, None

    def __len__(self) -> int:
        return len(self._calls)

    def has(self, id: str) -> bool:
        """True while a call is under way, or what came of it is not recorded."""
        return id in self._calls

    def has_reports(self) -> bool:
        """True if something has come that is not recorded."""
        return bool(self._reports())

    def need_memory(self) -> bool:
        """True while the code of a process answers one, which works on what is in memory (section 8)."""
        return bool(self._bound)

    # --- ending ---------------------------------------------------------------------------------------

    def end(self) -> None:
        """Give up all of them; what comes of them is dropped."""
        self.detach(_ignore)
        self._over = self._over or asyncio.get_running_loop().create_future()
        for id in tuple(self._calls):
            if not self._executor.abandon(id):
                self._drop(id)

    @property
    def is_ending(self) -> bool:
        """True once all are given up."""
        return self._over is not None

    async def over(self) -> None:
        """Wait until those that were given up are over."""
        if self._over is not None and self._calls:
            await asyncio.wait([self._over])

    # --- calls ----------------------------------------------------------------------------------------

    def abandon(self, id: str) -> bool:
        """Give a call up: its outcome will say so. False when it is not under way."""
        return self._executor.abandon(id)

    def start(self, run: Run, call: Call, context: CallContext, finish: Finish | None = None) -> None:
        """Have the executor answer a call. Raises what keeps it from being made."""
        asked = (run.eid, call.call, context.id)
        done = partial(self._done, *asked, finish)
        announce = partial(self._announce, *asked) if call.on_restart == "error" and not call.begun else None
        self._calls[context.id] = None
        if finish is not None:
            self._bound[context.id] = None
        try:
            self._executor.start(context, done, partial(self._produced, *asked), announce)
        except Exception:
            self._drop(context.id)
            raise

    def _announce(self, run: int, call: str, id: str, go: Callable[[], None]) -> None:
        """Begin a call that must not be made twice, once it is recorded that it begins (N29)."""
        self._report(run, id, CallStarting(0, 0.0, call), partial(self._begin, run, call, id, go))

    def _begin(self, run: int, call: str, id: str, go: Callable[[], None]) -> None:
        holder = self._agent.runs.active.get(run) if self._agent is not None else None
        asked = holder.calls.get(call) if holder is not None else None
        if holder is None or asked is None or call in holder.abandoned:
            if not self._executor.abandon(id):  # an inline call is under way nowhere
                self._drop(id)
            return
        try:
            go()
        except Exception as refusal:
            log.exception("call %s of run %d could not be begun", call, run)
            self._report(run, id, refused(asked, internal_failure(refusal)), partial(self._drop, id))

    def _done(self, run: int, call: str, id: str, finish: Finish | None, outcome: Outcome) -> None:
        if self._over is not None:
            self._settle(id, outcome)
            return
        if outcome.lost:
            self._drop(id)
            if self._resume is not None:
                self._resume(run, call)
            else:  # the next activation finds it under way nowhere
                self._activate()
            return
        event = returned(call, outcome if finish is None else finish(outcome))
        self._report(run, id, event, partial(self._settle, id, outcome))

    async def _produced(self, run: int, call: str, id: str, elements: list[OutputElement]) -> None:
        """Tell of the elements of a source; it goes on when they are recorded (N36)."""
        recorded = asyncio.get_running_loop().create_future()
        self._report(run, id, Produced(0, 0.0, call, tuple(elements)), partial(_settle, recorded))
        await recorded

    # --- what comes of them ---------------------------------------------------------------------------

    def _report(self, run: int, id: str, event: Event, recorded: Callable[[], None]) -> None:
        """Tell the agent of a call, as soon as it is active; `recorded` is called once that is recorded."""
        if self._over is not None:
            return
        report = Delivery(run, event, partial(self._recorded, id, event, recorded))
        self._calls[id] = report
        if self._post is not None:
            self._post(report)
        else:
            self._activate()

    def _recorded(
        self, id: str, event: Event, recorded: Callable[[], None], error: BaseException | None
    ) -> None:
        report = self._calls.get(id)
        if report is None or report.event is not event:  # more has come of it since
            return
        if error is None:
            self._calls[id] = None
            recorded()
        elif self._post is None:  # its activation was dropped: the next is told
            self._activate()

    def _reports(self) -> list[Delivery]:
        return [report for report in self._calls.values() if report is not None]

    def _settle(self, id: str, outcome: Outcome) -> None:
        """Forget a call whose outcome is recorded, or not wanted."""
        if outcome.recorded is not None:
            outcome.recorded()
        self._drop(id)

    def _drop(self, id: str) -> None:
        self._calls.pop(id, None)
        self._bound.pop(id, None)
        if self._over is not None and not self._calls:
            _settle(self._over)


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


def _settle(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _ignore() -> None:
    """Do nothing: it is active, or nobody waits for it."""

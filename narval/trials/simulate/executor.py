"""The executor of a simulation: no call leaves it.

A call is answered as the scenario says. Otherwise a transform, or an action declared pure, runs as usual. Any
other call is recorded, and gets the least answer that its outputs allow. Calls to other agents are answered
here where the scenario says how, or where the agent is not in the home.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Any

import msgspec

from narval.agent.loop import Request
from narval.agent.run import Run
from narval.agent.transaction import CallGivenUp
from narval.agent.turn import Turn
from narval.calls.backend import Backend
from narval.calls.context import CallContext, Target
from narval.calls.executor import Executor
from narval.calls.record import ABANDONED, CallListener, CallRecord, Outcome
from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element, Origin, Tree, parse
from narval.core.engines.commands import FLOW, Call
from narval.core.engines.events import Failure, OutputElement, Returned
from narval.daemon.agents.agent_host import AgentHost
from narval.daemon.messages.envelope import stamped
from narval.files.settings import CallLimits
from narval.system.clock import Clock
from narval.trials.simulate.calls_known import CallsKnown, default_answer
from narval.trials.simulate.scenario import CannedAnswer, Expectation
from narval.trials.simulate.simulated_home import AgentsAtPlay

HOW = ("ran", "answered", "as then", "made up", "noted", "unanswered", "source")
"""The ways a call gets its answer: `as then` is the past answer to the same call; `noted` means that it need
return nothing; a source returns what arrives.
"""

NO_ANSWER = "no-answer"


class RecordedCall(msgspec.Struct):
    """A call that was made, and how it got its answer."""

    call: str
    """The id of the call."""
    at: float
    """The moment at which it was made."""
    run: int
    """The run that made it."""
    recipe: str
    """The definition of the run."""
    step: str
    """The step that made it."""
    action: str
    """The name of its target."""
    attempt: int
    """The number of the attempt."""
    inputs: tuple[tuple[str, tuple[Element, ...]], ...]
    """The elements it was given, by input."""
    agent: str = ""
    """The agent of the run, if there are several."""
    how: str = ""
    """The way it got its answer."""
    after: float = 0.0
    """Seconds until it was answered."""
    gave: tuple[bytes, ...] = ()
    """The elements of the answer."""
    error: str = ""
    """The error it ended with."""

    def answer(self) -> dict[str, Any]:
        """The answer in the form for a line of the trace; `after` is None if it never comes."""
        return {
            "how": self.how,
            "after": None if math.isinf(self.after) else self.after,
            "gave": [xml.decode("utf-8") for xml in self.gave],
            "error": self.error or None,
        }


class _InOrder(CallListener):
    """The listener of a call, notified of the outcome when all work of this moment has ended."""

    def __init__(
        self, of: CallListener, finished: Callable[[CallRecord, Outcome, CallListener], None]
    ) -> None:
        self._of, self._finished = of, finished

    def announce(self, record: CallRecord) -> None:
        """Record that a call begins."""
        self._of.announce(record)

    async def produced(self, record: CallRecord, elements: list[OutputElement]) -> None:
        """Take elements that a source yields."""
        await self._of.produced(record, elements)

    def answered(self, record: CallRecord, outcome: Outcome) -> None:
        """Keep the outcome until its turn."""
        self._finished(record, outcome, self._of)


class SimulatedExecutor(Executor):
    """The executor that answers calls in place of the outside; `past` returns the answer to the same call if
    it was made in the past.
    """

    answers_inline_calls = False
    is_simulated = True

    def __init__(
        self,
        limits: CallLimits,
        clock: Clock,
        zone: str,
        replies: tuple[CannedAnswer, ...],
        known: CallsKnown,
        past: Callable[[RecordedCall], CannedAnswer | None],
        changed: Callable[[], None],
        is_shared: Callable[[], bool],
    ) -> None:
        super().__init__(limits, clock=clock, zone=zone, changed=changed, is_shared=is_shared)
        self.calls: list[RecordedCall] = []
        self._told = 0
        self._known, self._past = known, past
        self._left: list[tuple[CannedAnswer, float]] = [
            (answer, math.inf if answer.times is None else answer.times) for answer in replies
        ]
        self._due: list[tuple[float, int, CallRecord, Outcome]] = []
        """Answers that come later, or never."""
        self._order = count()
        self._finished: list[tuple[int, CallRecord, Outcome, CallListener]] = []
        """The outcomes of calls that ran outside the loop, each with the number of its start."""

    # --- for the dispatcher --------------------------------------------------------------------------

    def start(self, record: CallRecord) -> None:
        """Answer a call: as the scenario says, by running it if that is safe, or with the least answer."""
        context = record.call
        session = record.asked.elements if record.asked is not None and record.asked.kind == FLOW else ()
        call = self._recorded(context, session)
        self.calls.append(call)
        answer = self._reply(call)
        if answer is not None:
            self._answer(call, record, answer)
        elif context.target.where == "source":
            call.how = "source"
            self._hold(record, Outcome(), math.inf)
        elif context.target.where == "program":  # a program succeeds
            call.how = "noted"
            record.answer(Outcome(value={"status": 0, "output": ""}))
        elif context.target.where in ("transform", "script") or self._known.is_pure(context):
            call.how = "ran"
            if context.target.where != "inline":
                record.redirect(_InOrder(record.listener, partial(self._keep, next(self._order))))
            super().start(record)
        elif (then := self._past(call)) is not None:
            self._answer(call, record, then)
            call.how = "as then"
        elif context.payload is not None and not session:  # a node counts as done
            call.how = "noted"
            record.answer(Outcome(value=_done(context)))
        else:
            record.answer(self._made_up(call, context))

    def _of(self, record: CallRecord) -> Backend:
        """The usual backend; in place of the cluster a worker, which gives the same answer."""
        return self.workers if record.call.target.where == "cluster" else super()._of(record)

    def abandon(self, record: CallRecord) -> None:
        """Give a call up."""
        if record.place is self:
            self._hold(record, ABANDONED, self.clock.now())
        else:
            super().abandon(record)

    def has_caught_up(self, record: CallRecord) -> bool:
        """True if a call waits for time to pass, or for ever."""
        return record.place is self or super().has_caught_up(record)

    # --- for the simulation ---------------------------------------------------------------------------

    def answers(self, context: CallContext) -> bool:
        """True if the scenario has an answer for such a call."""
        call = self._recorded(context)
        return any(left > 0 and is_of(answer, call) for answer, left in self._left)

    def new_calls(self) -> list[RecordedCall]:
        """The calls since the last request."""
        new, self._told = self.calls[self._told :], len(self.calls)
        return new

    def drop(self) -> None:
        """Drop all calls."""
        self.calls, self._told = [], 0

    def next(self) -> float | None:
        """The moment at which the next answer is due, or a sleeping call continues; None without any."""
        finished = self.clock.now() if self._finished else None
        due = (moment for moment in (finished, self._next_answer(), super().next()) if moment is not None)
        return min(due, default=None)

    def release(self) -> None:
        """Deliver the answers that are due, and wake sleeping calls."""
        super().release()
        finished, self._finished = sorted(self._finished, key=itemgetter(0)), []
        for _, record, outcome, listener in finished:
            listener.answered(record, outcome)
        while (due := self._next_answer()) is not None and due <= self.clock.now():
            _, _, record, outcome = heapq.heappop(self._due)
            record.answer(outcome)

    # --- inside ---------------------------------------------------------------------------------------

    def _recorded(self, context: CallContext, session: tuple[int, ...] = ()) -> RecordedCall:
        inputs = tuple((id, _elements(elements)) for id, elements in context.inputs.items())
        if session:
            inputs = (("", self._known.elements(context, session)),)
        run, recipe, step = self._known.place(context)
        return RecordedCall(
            context.id,
            self.clock.now(),
            run,
            recipe,
            step,
            context.target.action,
            context.attempt,
            inputs,
            context.agent,
        )

    def _next_answer(self) -> float | None:
        while self._due and self._due[0][2].is_over:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due and self._due[0][0] < math.inf else None

    def _reply(self, call: RecordedCall) -> CannedAnswer | None:
        """The scenario's first answer for such a call that is not used up."""
        for at, (answer, left) in enumerate(self._left):
            if left > 0 and is_of(answer, call):
                self._left[at] = (answer, left - 1)
                return answer
        return None

    def _answer(self, call: RecordedCall, record: CallRecord, answer: CannedAnswer) -> None:
        context = record.call
        call.how, call.after, call.error = "answered", answer.after, answer.error
        action, after = context.target.action, answer.after
        attributes = self._known.set_by_author(context)
        elements = tuple(_with(xml, attributes) for xml in answer.elements) if attributes else answer.elements
        outcome = Outcome([OutputElement(xml) for xml in elements], value=_done(context))
        if answer.error:
            outcome = Outcome(problem=Failure(answer.error, answer.message or f"{action} failed"))
        if context.program is not None:
            outcome = Outcome(value=_ended(answer))
        if context.timeout is not None and after > context.timeout:
            after, call.error = context.timeout, "timeout"
            message = f"{action} did not come back within {after:g} s"
            outcome = Outcome(problem=Failure("timeout", message))
        elif not math.isinf(after):
            call.gave = elements
        if after > 0:
            self._hold(record, outcome, self.clock.now() + after)
        else:
            record.answer(outcome)

    def _made_up(self, call: RecordedCall, context: CallContext) -> Outcome:
        prototype = self._known.prototype(context)
        elements = default_answer(prototype, self._known.refusal(context)) if prototype is not None else None
        if elements is None:
            call.how, call.error = "unanswered", NO_ANSWER
            hint = f'say it in a scenario: <answer action="{call.action}">…</answer>'
            message = f"{call.action} would be called, and what it gives cannot be made up; {hint}"
            return Outcome(problem=Failure(NO_ANSWER, message, final=True))
        call.how, call.gave = "made up" if elements else "noted", tuple(elements)
        return Outcome([OutputElement(xml) for xml in elements])

    def _keep(self, order: int, record: CallRecord, outcome: Outcome, listener: CallListener) -> None:
        """Keep the outcome of a call that ran. Threads and programs end in any order, but a simulation
        continues in the order of their starts, the same each time.
        """
        self._finished.append((order, record, outcome, listener))

    def _hold(self, record: CallRecord, outcome: Outcome, until: float) -> None:
        """Answer a call at a moment; until then the answer is only here."""
        record.give_to(self)
        heapq.heappush(self._due, (until, next(self._order), record, outcome))


def is_of(criteria: CannedAnswer | Expectation, call: RecordedCall) -> bool:
    """True if a call is of the given action, recipe and step, with an input that satisfies the condition."""
    if criteria.action not in ("", call.action) or criteria.recipe not in ("", call.recipe):
        return False
    if criteria.step not in ("", call.step):
        return False
    if criteria.condition is None:
        return True
    bound = criteria.condition.bind()
    return any(bound.test(Tree(element)) for _, elements in call.inputs for element in elements)


def _elements(value: Element | list[Element] | None) -> tuple[Element, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


def _with(xml: bytes, attributes: Mapping[str, str]) -> bytes:
    """An element with these attributes."""
    root = parse(xml)
    for name, value in attributes.items():
        root.set(name, value)
    return canonical(root)


def _ended(answer: CannedAnswer) -> dict[str, Any]:
    """The value of a program that ends as an answer says: successfully, with a status, or by a signal."""
    is_status = not answer.error or answer.error.isdigit()
    how = {"status": int(answer.error or 0)} if is_status else {"signal": answer.error}
    return {**how, "output": answer.message}


def _done(context: CallContext) -> dict[str, Any] | None:
    """The value of a node whose work is done: its token leaves on the unnamed arcs."""
    if context.payload is None:
        return None
    over = {"do": "complete", "arcs": [""], "asynchronous": False}
    return {"effects": [over] if context.payload.get("hook") == "execute" else []}


class Elsewhere:
    """The agents whose answers are in a scenario; `executor` has these answers."""

    def __init__(self, agents: AgentsAtPlay, executor: SimulatedExecutor) -> None:
        self._agents, self._executor = agents, executor
        self._asked: set[str] = set()

    def stand_in(self, turn: Turn, run: Run, what: object) -> bool:
        """Answer a run's request to another agent, or give it up; False if that agent must do it."""
        host = self._agents.host_of(turn.agent)
        if isinstance(what, Call):
            return self._call(host, turn, run, what)
        if not isinstance(what, CallGivenUp):
            return False
        id, calls = host.dispatcher.external_id(what.call.call), host.dispatcher.calls
        if (record := calls.find(id)) is not None and id in self._asked:
            calls.abandon(record)
        return id in self._asked

    def _call(self, host: AgentHost, turn: Turn, run: Run, call: Call) -> bool:
        eids_of = {"": call.elements, **dict(call.inputs)}
        inputs = {id: _elements_of(turn, eids) for id, eids in eids_of.items() if eids}
        id = host.dispatcher.external_id(call.call)
        context = CallContext(
            id,
            run.eid,
            call.step,
            attempt=call.attempt,
            target=Target(action=call.name, where="inline"),
            inputs=inputs,
            clock=self._executor.clock,
            agent=host.name,
        )
        if call.agent in self._agents and not self._executor.answers(context):
            return False
        self._asked.add(id)
        host.dispatcher.calls.start(context, listener=CallListener(partial(_report, host, run.eid, call, id)))
        return True


def _report(host: AgentHost, run: int, call: Call, id: str, outcome: Outcome) -> None:
    host.post(Request(partial(_back, run, call, id, outcome), lambda value, error: None))


def _back(run: int, call: Call, id: str, outcome: Outcome, turn: Turn) -> None:
    origin = Origin(run, call.step, call.call, agent=call.agent, message=id)
    eids = tuple([turn.add(stamped(element.xml, call.agent, id), origin) for element in outcome.elements])
    problem, abandoned = outcome.problem, outcome.abandoned
    turn.tell(run, Returned(0, 0.0, call.call, eids=eids, problem=problem, abandoned=abandoned))


def _elements_of(turn: Turn, eids: tuple[int, ...]) -> list[Element]:
    elements = (turn.agent.memory.element(eid) for eid in eids)
    return [element for element in elements if element is not None]

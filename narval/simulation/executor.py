"""Understudy: the executor of a simulation, where nothing outside is ever called.

A call is answered as the scenario says. Otherwise a transform, or an action that is declared pure, is run as
it always is; any other is written down, and given the least answer that its outputs allow.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from narval.definitions.prototype import Prototype
from narval.engines.events import Failure, OutputElement
from narval.memory.elements.element import Element, Tree
from narval.memory.patterns.pattern import Condition
from narval.runtime.calls.backend import ABANDONED, Announce, Inputs, Outcome, Produced, Task
from narval.runtime.calls.context import CurrentCall
from narval.runtime.calls.executor import Done, Executor
from narval.runtime.home.settings import CallLimits
from narval.runtime.system.clock import Clock
from narval.simulation.default_answers import Refusal, made_up
from narval.simulation.scenario import CannedAnswer

HOW = ("ran", "answered", "made up", "noted", "unanswered", "source")
"""How a call came by its answer: `noted`, it need give nothing; a source would give what arrives."""

NO_ANSWER = "no-answer"


class RecordedCall(msgspec.Struct):
    """A call as it was met: who made it, what it was given, and how it came by its answer."""

    call: str
    at: float
    run: int
    recipe: str
    step: str
    action: str
    attempt: int
    inputs: tuple[tuple[str, tuple[Element, ...]], ...]
    how: str = ""
    after: float = 0.0
    gave: tuple[bytes, ...] = ()
    error: str = ""


class SimulationHooks(msgspec.Struct, frozen=True):
    """What an understudy asks of the simulation it plays in."""

    is_pure: Callable[[str], bool]
    prototype: Callable[[Task], Prototype | None]
    recipe: Callable[[int], str]
    refusal: Refusal


class SimulatedExecutor(Executor):
    """Answers calls in the place of the world."""

    def __init__(
        self, limits: CallLimits, clock: Clock, replies: tuple[CannedAnswer, ...], play: SimulationHooks
    ) -> None:
        super().__init__(limits, clock=clock)
        self.met: list[RecordedCall] = []
        self._play = play
        self._left: list[tuple[CannedAnswer, float]] = [
            (each, math.inf if each.times is None else each.times) for each in replies
        ]
        self._held: dict[str, tuple[Done, Outcome]] = {}
        """Calls whose answer comes later, or never."""
        self._due: list[tuple[float, int, str]] = []
        self._order = count()

    # --- what the dispatcher asks ----------------------------------------------------------------------

    def start(self, task: Task, done: Done, produced: Produced, announce: Announce | None = None) -> None:
        """Answer a call: as the scenario says, by running it where that is safe, or by what is made up."""
        met = RecordedCall(
            task.call,
            self._clock.now(),
            task.run,
            self._play.recipe(task.run),
            task.step,
            task.action,
            task.attempt,
            tuple((id, _elements(given)) for id, given in task.inputs.items()),
        )
        self.met.append(met)
        reply = self._reply(met)
        if reply is not None:
            self._answer(met, task, done, reply)
        elif task.where == "source":
            met.how = "source"
            self._hold(task, done, Outcome(), math.inf)
        elif task.where == "program":  # it would have gone well
            met.how = "noted"
            done(Outcome(value={"status": 0, "output": ""}))
        elif task.where in ("transform", "script") or self._play.is_pure(task.action):
            met.how = "ran"
            super().start(task, done, produced, announce)
        elif task.payload is not None:  # whoever was to do it has done it
            met.how = "noted"
            done(Outcome(value=_done(task)))
        else:
            done(self._made_up(met, task))

    def at_once(self, task: Task, inputs: Inputs, current: CurrentCall) -> None:
        """Not before it has been looked at: see `start`."""

    def abandon(self, call: str) -> bool:
        """Give a call up."""
        held = self._held.pop(call, None)
        if held is None:
            return super().abandon(call)
        self._held[call] = (held[0], ABANDONED)
        heapq.heappush(self._due, (self._clock.now(), next(self._order), call))
        return True

    def caught_up(self, call: str) -> bool:
        """Whether a call waits for time to pass, or for ever: then nothing happens until it does."""
        return call in self._held or super().caught_up(call)

    # --- what the simulation asks ---------------------------------------------------------------------

    def next(self) -> float | None:
        """When the next answer is due, or a call that sleeps is to go on."""
        due = (each for each in (self._next_answer(), super().next()) if each is not None)
        return min(due, default=None)

    def release(self) -> None:
        """Give the answers that are due, and wake who sleeps."""
        super().release()
        while (due := self._next_answer()) is not None and due <= self._clock.now():
            _, _, call = heapq.heappop(self._due)
            done, outcome = self._held.pop(call)
            done(outcome)

    # --- inside ---------------------------------------------------------------------------------------

    def _next_answer(self) -> float | None:
        while self._due and self._due[0][2] not in self._held:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due and self._due[0][0] < math.inf else None

    def _reply(self, met: RecordedCall) -> CannedAnswer | None:
        """The first answer of the scenario that is for such a call, and not used up."""
        for at, (reply, left) in enumerate(self._left):
            if (
                left > 0
                and is_meant(reply.action, reply.recipe, reply.step, met)
                and takes(reply.condition, met)
            ):
                self._left[at] = (reply, left - 1)
                return reply
        return None

    def _answer(self, met: RecordedCall, task: Task, done: Done, reply: CannedAnswer) -> None:
        met.how, met.after, met.error = "answered", reply.after, reply.error
        outcome, after = (
            Outcome([OutputElement(xml) for xml in reply.elements], value=_done(task)),
            reply.after,
        )
        if reply.error:
            outcome = Outcome(problem=Failure(reply.error, reply.message or f"{task.action} failed"))
        if task.timeout is not None and after > task.timeout:
            message = f"{task.action} did not come back within {task.timeout:g} s"
            outcome, after, met.error = Outcome(problem=Failure("timeout", message)), task.timeout, "timeout"
        elif not math.isinf(after):
            met.gave = reply.elements
        if after > 0:
            self._hold(task, done, outcome, self._clock.now() + after)
        else:
            done(outcome)

    def _made_up(self, met: RecordedCall, task: Task) -> Outcome:
        prototype = self._play.prototype(task)
        elements = made_up(prototype, self._play.refusal) if prototype is not None else None
        if elements is None:
            met.how, met.error = "unanswered", NO_ANSWER
            message = (
                f"{task.action} would be called, and what it gives cannot be made up; "
                f'say it in a scenario: <answer action="{task.action}">…</answer>'
            )
            return Outcome(problem=Failure(NO_ANSWER, message, final=True))
        met.how, met.gave = "made up" if elements else "noted", tuple(elements)
        return Outcome([OutputElement(xml) for xml in elements])

    def _hold(self, task: Task, done: Done, outcome: Outcome, until: float) -> None:
        self._held[task.call] = (done, outcome)
        heapq.heappush(self._due, (until, next(self._order), task.call))


def is_meant(action: str, recipe: str, step: str, met: RecordedCall) -> bool:
    """Whether a call is of that action, recipe and step; an empty one is any."""
    return (
        action in ("", met.action) and (recipe or met.recipe) == met.recipe and (step or met.step) == met.step
    )


def takes(condition: Condition | None, met: RecordedCall) -> bool:
    """Whether an element that the call was given fits the condition, if there is one."""
    if condition is None:
        return True
    bound = condition.bind()
    return any(bound.test(Tree(each)) for _, given in met.inputs for each in given)


def _elements(given: Element | list[Element] | None) -> tuple[Element, ...]:
    if given is None:
        return ()
    return tuple(given) if isinstance(given, list) else (given,)


def _done(task: Task) -> dict[str, Any] | None:
    """What a node leaves that has done its work: its token leaves on the arcs that have no name."""
    if task.payload is None:
        return None
    over = {"do": "complete", "arcs": [""], "asynchronous": False}
    return {"effects": [over] if task.payload.get("hook") == "execute" else []}

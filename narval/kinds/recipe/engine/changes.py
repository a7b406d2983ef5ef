"""The facts that change a plan (N21), each with its effect. Applying one decides nothing."""

from __future__ import annotations

from narval.core.engines.commands import Call
from narval.core.engines.events import CarriedOver, Failure, Reusable
from narval.core.engines.run_state import RunBegan, RunChange, take_over
from narval.kinds.recipe.engine.state import (
    CallRun,
    ForeachCalls,
    PlanState,
    Satisfied,
    StepRun,
    TransitionRun,
)


class PlanChange(RunChange, frozen=True):
    """A fact that changes a plan."""


class PlanStarted(PlanChange, RunBegan, frozen=True):
    """The plan began; `elements` are its first context."""

    def apply(self, state: PlanState) -> None:
        state.move("running")
        state.begin(self)


class PlanResumed(PlanChange, frozen=True):
    """The plan continues from `step` of the plan `of`, with the steps and transitions that it takes over.

    `again` lists the elements that parts may take although the plan `of` has used them. `followed` is true if
    another plan already follows that one.
    """

    of: int
    step: str
    steps: tuple[CarriedOver, ...] = ()
    transitions: tuple[CarriedOver, ...] = ()
    again: tuple[Reusable, ...] = ()
    followed: bool = False

    def apply(self, state: PlanState) -> None:
        state.resumed, state.followed = (self.of, self.step), self.followed
        for part in self.steps:  # taken over unchanged: what led there happened in the other plan
            state.steps[part.id] = StepRun(part.state, produced=part.eids, errors=part.errors)
        for part in self.transitions:
            state.transitions[part.id] = TransitionRun(part.state, part.eids, part.counts)
        for reusable in self.again:
            slots = state.again.setdefault(reusable.id, {})
            slots[reusable.slot] = tuple(dict.fromkeys((*slots.get(reusable.slot, ()), *reusable.eids)))


class StepReady(PlanChange, frozen=True):
    """The step is ready to run: it is the first one, or the transition `via` led to it."""

    step: str
    via: str = ""

    def apply(self, state: PlanState) -> None:
        state.move_step(self.step, "ready").via = self.via


class StepBlocked(PlanChange, frozen=True):
    """The step waits, because a call elsewhere has reserved the only elements it could take."""

    step: str
    watch: str

    def apply(self, state: PlanState) -> None:
        state.steps[self.step].watch = self.watch
        state.blocked[self.step] = None
        state.waited = True


class StepRunning(PlanChange, frozen=True):
    """The step has its inputs and has made its call; with `foreach`, it has made no call yet."""

    step: str
    """The step."""
    call: str = ""
    """The call; "" with `foreach`."""
    inputs: tuple[int, ...] = ()
    """The elements that the call was given."""
    reserved: tuple[int, ...] = ()
    """The elements that the call will replace."""
    source: bool = False
    """True if the target is a source."""
    foreach: ForeachCalls | None = None
    """The common part of the calls of a `foreach`."""
    selected: tuple[int, ...] = ()
    """The elements that each get a call."""
    at: float = 0.0
    """The moment of the call, if the step may be called again."""
    fed: bool = False
    """True if the recipe restarts, and the step uses up an element from outside it."""

    def apply(self, state: PlanState) -> None:
        run = state.move_step(self.step, "running")
        if state.blocked:
            state.blocked.pop(self.step, None)
            run.watch = ""
        if self.fed:
            state.waited = True
        if self.call:
            run.calls[self.call] = CallRun(self.inputs, self.reserved, self.source)
            state.calls[self.call] = self.step
            if self.at:
                run.called = self.at
                state.take_once(self.step, self.inputs)
        else:
            run.foreach, run.selected = self.foreach, self.selected


class CallMade(PlanChange, frozen=True):
    """A `foreach` made the call for the element `given`. Without `given`, a single source was called again,
    or a step with `until` (N40) at the moment `at`.
    """

    step: str
    call: str
    inputs: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()
    given: int | None = None
    source: bool = False
    at: float = 0.0

    def apply(self, state: PlanState) -> None:
        run = state.steps[self.step]
        run.calls[self.call] = CallRun(self.inputs, self.reserved, self.source)
        state.calls[self.call] = self.step
        if self.given is not None:
            run.reached = run.selected.index(self.given, run.reached) + 1
        else:
            run.called = self.at
            if self.step in state.blocked:
                del state.blocked[self.step]
                run.watch = ""
            state.take_once(self.step, self.inputs)


class StepResting(PlanChange, frozen=True):
    """The step rests: its next call is due at the moment `until`, unless an element fits its pattern
    earlier.
    """

    step: str
    until: float
    watch: str
    wake: str

    def apply(self, state: PlanState) -> None:
        run = state.steps[self.step]
        run.until, run.watch, run.wake = self.until, self.watch, self.wake
        state.resting[self.step] = None
        state.waited = True


class RestEnded(PlanChange, frozen=True):
    """An element fits the pattern of the step, or the moment of its next call has come."""

    step: str

    def apply(self, state: PlanState) -> None:
        del state.resting[self.step]
        run = state.steps[self.step]
        run.until, run.watch, run.wake = 0.0, "", ""


class SelectionFollowed(PlanChange, frozen=True):
    """A `foreach` over sources watches for new elements to select and for replaced ones; a single source
    watches for replacements of its inputs.
    """

    step: str
    watch: str

    def apply(self, state: PlanState) -> None:
        state.steps[self.step].watch = self.watch
        state.following[self.step] = None


class SelectionGrown(PlanChange, frozen=True):
    """A `foreach` over sources has a further element to make a call for."""

    step: str
    element: int

    def apply(self, state: PlanState) -> None:
        state.steps[self.step].selected += (self.element,)


class CallsDropped(PlanChange, frozen=True):
    """A `foreach` makes no call for these elements, which were taken elsewhere before their turn."""

    step: str
    elements: tuple[int, ...]

    def apply(self, state: PlanState) -> None:
        run = state.steps[self.step]
        run.reached = max(run.reached, run.selected.index(self.elements[-1]) + 1)


class TryFailed(PlanChange, frozen=True):
    """A try of a call failed; the next, `next_try`, will be made at `until`."""

    call: str
    until: float
    problem: Failure
    next_try: Call

    def apply(self, state: PlanState) -> None:
        call = state.call_run(self.call)
        call.until, call.next_try, call.problem = self.until, self.next_try, self.problem
        call.spoilt = None


class NextTryMade(PlanChange, frozen=True):
    """The call was made again. Tries of a source that has used up its retries are not `counted`."""

    call: str
    counted: bool = True

    def apply(self, state: PlanState) -> None:
        call = state.call_run(self.call)
        call.tries += self.counted
        call.until = call.next_try = None
        call.expired = False


class CallExpired(PlanChange, frozen=True):
    """The run that answers the call exceeded the step's time limit, and is given up."""

    call: str

    def apply(self, state: PlanState) -> None:
        state.call_run(self.call).expired = True


class CallSpoilt(PlanChange, frozen=True):
    """One of several sources gave an element that fits none of its outputs. That source is given up; the
    others continue.
    """

    call: str
    problem: Failure

    def apply(self, state: PlanState) -> None:
        state.call_run(self.call).spoilt = self.problem


class TriesReset(PlanChange, frozen=True):
    """A source that had failed has produced something: its tries are counted from zero again."""

    call: str

    def apply(self, state: PlanState) -> None:
        call = state.call_run(self.call)
        call.tries, call.problem = 1, None


class CallReturned(PlanChange, frozen=True):
    """A call returned without ending the step, with its products, the errors it left, or a fault of its
    outputs.
    """

    call: str
    produced: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    fault: int | None = None

    def apply(self, state: PlanState) -> None:
        run = state.steps[state.calls.pop(self.call)]
        del run.calls[self.call]
        run.produced += self.produced
        run.errors += self.errors
        if run.fault is None:
            run.fault = self.fault


class StepDone(PlanChange, frozen=True):
    """All calls of the step succeeded. Those of a `foreach` returned earlier; a single `call` returns with
    this change, with what it produced.
    """

    step: str
    call: str = ""
    produced: tuple[int, ...] = ()

    def apply(self, state: PlanState) -> None:
        run = state.end_step(self.step, "done")
        if self.call:
            del state.calls[self.call]
            run.calls.clear()  # unlike `del`, it frees the table of a dict that held several
            if self.produced:
                run.produced += self.produced


class StepErred(PlanChange, frozen=True):
    """A call of the step ended in error; an error link may handle it."""

    step: str

    def apply(self, state: PlanState) -> None:
        state.end_step(self.step, "error")
        state.in_error[self.step] = None


class StepFailed(PlanChange, frozen=True):
    """The engine could not run the step; `error` is the element that says why."""

    step: str
    error: int

    def apply(self, state: PlanState) -> None:
        state.blocked.pop(self.step, None)
        if state.steps[self.step].state == "running":
            state.follow_no_more(self.step)
            state.move_step(self.step, "end")
        state.move_step(self.step, "failed").fault = self.error


class DateSet(PlanChange, frozen=True):
    """The in-steps have ended, and the transition waits for this moment, which may replace an earlier one.

    `since` is the moment they ended, if the transition has appointments. `of` has the elements that the date
    was computed from, by variable; `watch` reports when one of them is replaced.
    """

    transition: str
    date: float
    wake: str
    since: float = 0.0
    of: tuple[tuple[str, tuple[int, ...]], ...] = ()
    watch: str = ""

    def apply(self, state: PlanState) -> None:
        run = state.move_transition(self.transition, "wait-time")
        run.date, run.wake, run.since = self.date, self.wake, self.since
        run.of, run.watch = self.of, self.watch
        state.awaiting_date[self.transition] = None
        state.waited = True


class DateCome(PlanChange, frozen=True):
    """The date has come: the transition now waits only for its conditions."""

    transition: str

    def apply(self, state: PlanState) -> None:
        if self.transition not in state.transitions:
            state.transitions[self.transition] = TransitionRun()
        run = state.transitions[self.transition]
        run.come, run.wake, run.watch = True, "", ""
        state.awaiting_date.pop(self.transition, None)


class DateGivenUp(PlanChange, frozen=True):
    """No further date of the transition will come: it was missed and is not made up for, the elements `gone`
    that it was computed from no longer count, or they have no valid date.
    """

    transition: str
    gone: tuple[int, ...] = ()

    def apply(self, state: PlanState) -> None:
        run = state.transitions.setdefault(self.transition, TransitionRun())
        run.given_up, run.gone, run.wake, run.watch = True, self.gone, "", ""
        state.awaiting_date.pop(self.transition, None)


class VersionFollowed(PlanChange, frozen=True):
    """The plan continues with an element's replacement: variables stand for `new` instead of `old` from now
    on.
    """

    old: int
    new: int

    def apply(self, state: PlanState) -> None:
        state.instead[self.old] = self.new


class TransitionWaiting(PlanChange, frozen=True):
    """The in-steps have ended and the conditions do not hold yet: a watch is set, or replaces another
    (N24).
    """

    transition: str
    watch: str

    def apply(self, state: PlanState) -> None:
        state.move_transition(self.transition, "wait-condition").watch = self.watch
        state.waiting[self.transition] = None


class DurationStarted(PlanChange, frozen=True):
    """All conditions have elements, but some with `for` have not held long enough: they may at `until` (N38).

    `satisfied` has, for each condition with `for`, the element that will be first.
    """

    transition: str
    satisfied: tuple[Satisfied, ...]
    until: float
    wake: str

    def apply(self, state: PlanState) -> None:
        run = state.transitions[self.transition]
        run.satisfied, run.until, run.wake = self.satisfied, self.until, self.wake
        state.awaiting_duration[self.transition] = None


class DurationEnded(PlanChange, frozen=True):
    """The moment of a duration has come, or an element that it depended on was replaced or taken."""

    transition: str

    def apply(self, state: PlanState) -> None:
        state.end_duration(self.transition)


class TransitionFired(PlanChange, frozen=True):
    """The transition fired.

    `took` lists the elements of its conditions in order, and `counts` the number for each condition, if not
    one. `ends` are the in-steps, which are history now; `starts` are the out-steps that no other transition
    had led to. `fed` is true if the recipe restarts, and the transition waited for, or uses up, an element
    from outside it.
    """

    transition: str
    took: tuple[int, ...] = ()
    ends: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    fed: bool = False

    def apply(self, state: PlanState) -> None:
        if self.transition in state.transitions:
            run = state.move_transition(self.transition, "fireable")
            run.state, run.took, run.counts, run.watch = "fired", self.took, self.counts, ""
        else:
            state.transitions[self.transition] = TransitionRun("fired", self.took, self.counts)
        if self.fed:
            state.waited = True
        for step in self.ends:
            state.move_step(step, "history")
            if state.in_error:
                state.in_error.pop(step, None)
        for step in self.starts:
            if step in state.steps:
                state.move_step(step, "ready").via = self.transition
            else:
                state.steps[step] = StepRun("ready", self.transition)


class MadeImpossible(PlanChange, frozen=True):
    """These transitions can no longer fire, and these steps cannot be reached (N22)."""

    transitions: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    def apply(self, state: PlanState) -> None:
        for transition in self.transitions:
            run = state.move_transition(transition, "impossible")
            run.watch = run.wake = ""
        for step in self.steps:
            state.move_step(step, "impossible")


class TransitionFailed(PlanChange, frozen=True):
    """An error link's conditions do not hold, or no further date of the transition will come."""

    transition: str

    def apply(self, state: PlanState) -> None:
        state.move_transition(self.transition, "fail")


class PlanRedefined(PlanChange, frozen=True):
    """The plan, which had taken nothing yet, starts again with another version of its recipe."""

    version: str

    def apply(self, state: PlanState) -> None:
        state.steps.clear()
        state.transitions.clear()
        for waiting in state.waits:
            waiting.clear()


class PlanMigrated(PlanChange, frozen=True):
    """The plan continues with another version of its recipe, in this state."""

    version: str
    state: PlanState

    def apply(self, state: PlanState) -> None:
        take_over(state, self.state)


class PlanMoved(PlanChange, frozen=True):
    """The plan moved to another state; `error` says why it fails."""

    to: str
    at: float
    error: int | None = None

    def apply(self, state: PlanState) -> None:
        state.move(self.to, self.at, self.error)
        state.waiting.clear()
        state.awaiting_date.clear()
        for transition in tuple(state.awaiting_duration):
            state.end_duration(transition)
        state.blocked.clear()
        for step in tuple(state.resting):
            RestEnded(step).apply(state)
        for step in tuple(state.following):
            state.follow_no_more(step)

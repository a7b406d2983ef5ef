"""The facts that change a plan (N21); `state.py` applies them."""

from __future__ import annotations

import msgspec

from narval.core.engines.commands import Call
from narval.core.engines.events import CarriedOver, Failure, Reusable
from narval.core.engines.run_state import RunBegan, RunChange


class PlanChange(RunChange, frozen=True):
    """A fact that changes a plan."""


class ForeachCalls(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The common part of the calls of a `foreach` (N19).

    `input` takes one element a call, and says whether it uses or outdates it; a run has no inputs, and takes
    `arguments` into its context beside the element. `reserved` are those of the `shared` inputs that the step
    outdates when all its calls are back.
    """

    input: str = ""
    use: bool = False
    outdates: bool = False
    shared: tuple[tuple[str, tuple[int, ...]], ...] = ()
    listed: tuple[str, ...] = ()
    arguments: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()


class PlanStarted(PlanChange, RunBegan, frozen=True):
    """The plan began; `elements` are its first context."""


class PlanResumed(PlanChange, frozen=True):
    """The plan goes on from `step` of the plan `of`, with steps and transitions as they were there.

    `again` is what the others may take though that plan has used it. `followed`: another plan follows that
    one already.
    """

    of: int
    step: str
    steps: tuple[CarriedOver, ...] = ()
    transitions: tuple[CarriedOver, ...] = ()
    again: tuple[Reusable, ...] = ()
    followed: bool = False


class StepReady(PlanChange, frozen=True):
    """The step is to run: it is the first one, or `via` led to it."""

    step: str
    via: str = ""


class StepBlocked(PlanChange, frozen=True):
    """The step waits: a call elsewhere has reserved the only elements it could take."""

    step: str
    watch: str


class StepRunning(PlanChange, frozen=True):
    """The step has its inputs, and its one `call` went out; with `foreach` none has yet, and `selected` are
    the elements that will have one. `at` is its moment, if the step may be called again (N40). `fed`: it uses
    up an element that the recipe, which restarts, has not made itself (N28).
    """

    step: str
    call: str = ""
    inputs: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()
    source: bool = False
    foreach: ForeachCalls | None = None
    selected: tuple[int, ...] = ()
    at: float = 0.0
    fed: bool = False


class CallMade(PlanChange, frozen=True):
    """One of the calls of a `foreach` went out, for the element `given`; or, without one, the next call of a
    step with `until` (N40), at the moment `at`.
    """

    step: str
    call: str
    inputs: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()
    given: int | None = None
    source: bool = False
    at: float = 0.0


class StepResting(PlanChange, frozen=True):
    """The step has no call now: one is made at `until`, unless something fits its pattern before (N40)."""

    step: str
    until: float
    watch: str
    wake: str


class RestEnded(PlanChange, frozen=True):
    """Something fits the pattern of the step, or the moment of its next call is there."""

    step: str


class SelectionFollowed(PlanChange, frozen=True):
    """A `foreach` over sources watches for what else it would select, and for what is replaced; one source
    alone, for what takes the place of what it was given (N36).
    """

    step: str
    watch: str


class SelectionGrown(PlanChange, frozen=True):
    """A `foreach` over sources is to make a call for this element too."""

    step: str
    element: int


class CallsDropped(PlanChange, frozen=True):
    """A `foreach` makes no call for these elements: they were taken elsewhere before their turn came."""

    step: str
    elements: tuple[int, ...]


class TryFailed(PlanChange, frozen=True):
    """A try of a call failed; the next, `next_try`, will be made at `until` (N29)."""

    call: str
    until: float
    problem: Failure
    next_try: Call


class NextTryMade(PlanChange, frozen=True):
    """The call was made once more; a source that has rested before is not counted on."""

    call: str
    counted: bool = True


class CallExpired(PlanChange, frozen=True):
    """The run that answers the call outlived the step's time limit: it is given up."""

    call: str


class CallSpoilt(PlanChange, frozen=True):
    """One of several sources gave what fits none of its outputs (N20): it is given up, the others go on."""

    call: str
    problem: Failure


class TriesReset(PlanChange, frozen=True):
    """A source that had failed has produced something: its tries are counted from the beginning."""

    call: str


class CallReturned(PlanChange, frozen=True):
    """A call came back, and the step is not done by that: with what it produced, the errors it left, or a
    fault of its outputs (N20).
    """

    call: str
    produced: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    fault: int | None = None


class StepDone(PlanChange, frozen=True):
    """All calls of the step did their work: of a `foreach` they have come back before; otherwise the one
    `call` does now, with what it produced.
    """

    step: str
    call: str = ""
    produced: tuple[int, ...] = ()


class StepErred(PlanChange, frozen=True):
    """A call of the step ended in error: an error link may take it up (N26)."""

    step: str


class StepFailed(PlanChange, frozen=True):
    """The engine could not run the step (N17, N20); `error` is the element that says why."""

    step: str
    error: int


class DateSet(PlanChange, frozen=True):
    """The in-steps are there: the transition waits for this moment, or for it in place of another (N25).

    `since` is when they had ended, if the transition has appointments (N41); `of` are the elements from which
    the date was reckoned, by variable, and `watch` tells when one of them is replaced (N45).
    """

    transition: str
    date: float
    wake: str
    since: float = 0.0
    of: tuple[tuple[str, tuple[int, ...]], ...] = ()
    watch: str = ""


class DateCome(PlanChange, frozen=True):
    """The date is there; from now on the transition waits for its conditions alone."""

    transition: str


class DateGivenUp(PlanChange, frozen=True):
    """No date of the transition comes any more: it was missed, and is not made up for (N41), or the elements
    `gone`, from which it was reckoned, count no more (N45), or they hold none.
    """

    transition: str
    gone: tuple[int, ...] = ()


class VersionFollowed(PlanChange, frozen=True):
    """The plan goes on with what took the place of an element: variables stand for that from now on (N45)."""

    old: int
    new: int


class TransitionWaiting(PlanChange, frozen=True):
    """The in-steps are there, the conditions not yet: a watch is set, or another in its place (N24)."""

    transition: str
    watch: str


class Satisfied(msgspec.Struct, frozen=True, gc=False):
    """An element fits the condition of that number, counted from 1, since that moment (N38)."""

    condition: int
    eid: int
    since: float


class DurationStarted(PlanChange, frozen=True):
    """All conditions have elements, those with `for` not long enough: they may have at `until` (N38).

    `satisfied` has, for each of those with `for`, the element that will be first.
    """

    transition: str
    satisfied: tuple[Satisfied, ...]
    until: float
    wake: str


class DurationEnded(PlanChange, frozen=True):
    """The moment of a duration has come, or an element it counted on was replaced or taken."""

    transition: str


class TransitionFired(PlanChange, frozen=True):
    """The transition was taken: `took` are the elements of its conditions, in their order, of each so many as
    `counts` says, if not one; `ends` the in-steps, which are history now; `starts` the out-steps that no
    other transition had led to. `fed`: it has waited for an element that the recipe, which restarts, has not
    made itself, or uses one up (N28).
    """

    transition: str
    took: tuple[int, ...] = ()
    ends: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    fed: bool = False


class MadeImpossible(PlanChange, frozen=True):
    """These transitions cannot fire any more, and these steps cannot be reached (N22)."""

    transitions: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


class TransitionFailed(PlanChange, frozen=True):
    """An error link's conditions do not hold (N26), or no date of the transition ever comes again (N25)."""

    transition: str


class PlanRedefined(PlanChange, frozen=True):
    """The plan, which had taken nothing, begins anew by another version of its recipe (N31)."""

    version: str


class PlanMoved(PlanChange, frozen=True):
    """The plan went on to another state; `error` says why it fails."""

    to: str
    at: float
    error: int | None = None

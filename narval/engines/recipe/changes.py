"""The facts that change a plan (N21); `state.py` applies them."""

from __future__ import annotations

import msgspec

from narval.engines.commands import Call
from narval.engines.events import Caller, CarriedOver, Failure, Reusable


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


class PlanStarted(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The plan began; `elements` are its first context."""

    at: float
    elements: tuple[int, ...] = ()
    caller: Caller | None = None
    attempt: int = 0


class PlanResumed(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The plan goes on from `step` of the plan `of`, with steps and transitions as they were there.

    `again` is what the others may take though that plan has used it.
    """

    of: int
    step: str
    steps: tuple[CarriedOver, ...] = ()
    transitions: tuple[CarriedOver, ...] = ()
    again: tuple[Reusable, ...] = ()


class StepReady(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The step is to run: it is the first one, or `via` led to it."""

    step: str
    via: str = ""


class StepBlocked(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The step waits: a call elsewhere has reserved the only elements it could take."""

    step: str
    watch: str


class StepRunning(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The step has its inputs, and its one `call` went out; with `foreach` none has yet, and `selected` are
    the elements that will have one.
    """

    step: str
    call: str = ""
    inputs: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()
    source: bool = False
    foreach: ForeachCalls | None = None
    selected: tuple[int, ...] = ()


class CallMade(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """One of the calls of a `foreach` went out, for the element `given`."""

    step: str
    call: str
    inputs: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()
    given: int | None = None
    source: bool = False


class CallsDropped(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A `foreach` makes no call for these elements: they were taken elsewhere before their turn came."""

    step: str
    elements: tuple[int, ...]


class TryFailed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A try of a call failed; the next, `next_try`, will be made at `until` (N29)."""

    call: str
    until: float
    problem: Failure
    next_try: Call


class NextTryMade(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The call was made once more."""

    call: str


class CallExpired(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The run that answers the call outlived the step's time limit: it is given up."""

    call: str


class TriesReset(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A source that had failed has produced something: its tries are counted from the beginning."""

    call: str


class CallReturned(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """A call came back, and the step is not done by that: with what it produced, the errors it left, or a
    fault of its outputs (N20).
    """

    call: str
    produced: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    fault: int | None = None


class StepDone(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """All calls of the step did their work: of a `foreach` they have come back before; otherwise the one
    `call` does now, with what it produced.
    """

    step: str
    call: str = ""
    produced: tuple[int, ...] = ()


class StepErred(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A call of the step ended in error: an error link may take it up (N26)."""

    step: str


class StepFailed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The engine could not run the step (N17, N20); `error` is the element that says why."""

    step: str
    error: int


class DateSet(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The in-steps are there: the transition waits for this moment, or for it in place of another (N25)."""

    transition: str
    date: float
    wake: str


class DateCome(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The date is there; from now on the transition waits for its conditions alone."""

    transition: str


class TransitionWaiting(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The in-steps are there, the conditions not yet: a watch is set, or another in its place (N24)."""

    transition: str
    watch: str


class Satisfied(msgspec.Struct, frozen=True, gc=False):
    """An element fits the condition of that number, counted from 1, since that moment (N38)."""

    condition: int
    eid: int
    since: float


class DurationStarted(msgspec.Struct, frozen=True, tag=True, gc=False):
    """All conditions have elements, those with `for` not long enough: they may have at `until` (N38).

    `satisfied` has, for each of those with `for`, the element that will be first.
    """

    transition: str
    satisfied: tuple[Satisfied, ...]
    until: float
    wake: str


class DurationEnded(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The moment of a duration has come, or an element it counted on was replaced or taken."""

    transition: str


class TransitionFired(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The transition was taken: `took` are the elements of its conditions, in their order; `ends` the
    in-steps, which are history now; `starts` the out-steps that no other transition had led to."""

    transition: str
    took: tuple[int, ...] = ()
    ends: tuple[str, ...] = ()
    starts: tuple[str, ...] = ()


class MadeImpossible(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """These transitions cannot fire any more, and these steps cannot be reached (N22)."""

    transitions: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


class TransitionFailed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An error link's conditions do not hold (N26), or no date of the transition ever comes again (N25)."""

    transition: str


class PlanMoved(msgspec.Struct, frozen=True, tag=True, omit_defaults=True, gc=False):
    """The plan went on to another state; `error` says why it fails."""

    to: str
    at: float
    error: int | None = None


PlanChange = (
    PlanStarted
    | PlanResumed
    | StepReady
    | StepBlocked
    | StepRunning
    | CallMade
    | CallsDropped
    | TryFailed
    | NextTryMade
    | CallExpired
    | TriesReset
    | CallReturned
    | StepDone
    | StepErred
    | StepFailed
    | DateSet
    | DateCome
    | TransitionWaiting
    | DurationStarted
    | DurationEnded
    | TransitionFired
    | MadeImpossible
    | TransitionFailed
    | PlanMoved
)

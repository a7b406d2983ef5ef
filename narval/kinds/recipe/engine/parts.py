"""The parts of a plan: the progress of its steps, calls and transitions; the tables of their moves.

A plan        ready → running → end → done      running → failed-end → failed      running → done
              any that has not ended → cancelled, or failed when narval itself broke down
A step        todo → ready → running → end → done → history
              todo → impossible      end → error → history      ready, end → failed
A transition  wait-step → wait-time → wait-condition → fireable → fired, skipping what it need not wait for
              wait-step, wait-time, wait-condition → impossible
              wait-step, wait-time → fail: an error link does not hold, or no further date comes
              wait-time → wait-time: another date, because the clock was set
              wait-condition → wait-condition: another watch, because a variable got its elements
"""

from __future__ import annotations

import msgspec

from narval.core.engines.commands import Call
from narval.core.engines.events import Failure

PLAN_MOVES: dict[str, frozenset[str]] = {
    "ready": frozenset({"running", "cancelled", "failed"}),
    "running": frozenset({"end", "done", "failed-end", "cancelled", "failed"}),
    "end": frozenset({"done", "cancelled", "failed"}),
    "failed-end": frozenset({"failed", "cancelled"}),
}
STEP_MOVES: dict[str, frozenset[str]] = {
    "todo": frozenset({"ready", "impossible"}),
    "ready": frozenset({"running", "failed"}),
    "running": frozenset({"end"}),
    "end": frozenset({"done", "error", "failed"}),
    "done": frozenset({"history"}),
    "error": frozenset({"history"}),
    "history": frozenset(),
    "failed": frozenset(),
    "impossible": frozenset(),
}
TRANSITION_MOVES: dict[str, frozenset[str]] = {
    "wait-step": frozenset({"wait-time", "wait-condition", "fireable", "impossible", "fail"}),
    "wait-time": frozenset({"wait-time", "wait-condition", "fireable", "impossible", "fail"}),
    "wait-condition": frozenset({"wait-condition", "fireable", "impossible"}),
    "fireable": frozenset({"fired"}),
    "fired": frozenset(),
    "impossible": frozenset(),
    "fail": frozenset(),
}
NOT_ENDED = frozenset({"todo", "ready", "running", "end"})
"""The states of steps that have not ended."""


class ForeachCalls(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The common part of the calls of a `foreach`.

    `input` takes one element for each call; `use` and `outdates` say what it does to that element. A run has
    no inputs: it takes the element and `arguments` into its context. `reserved` lists the elements of the
    `shared` inputs that the step outdates when all its calls have returned.
    """

    input: str = ""
    use: bool = False
    outdates: bool = False
    shared: tuple[tuple[str, tuple[int, ...]], ...] = ()
    listed: tuple[str, ...] = ()
    arguments: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()


class Satisfied(msgspec.Struct, frozen=True, gc=False):
    """An element that has fitted a condition since a moment; conditions are counted from 1."""

    condition: int
    eid: int
    since: float


class CallRun(msgspec.Struct, omit_defaults=True, gc=False):
    """A call that has not returned."""

    inputs: tuple[int, ...] = ()
    """The elements that it was given."""
    reserved: tuple[int, ...] = ()
    """The elements that it will replace."""
    source: bool = False
    """True if it is a source."""
    tries: int = 1
    """The number of times it was made."""
    until: float | None = None
    """The moment of the next try, while it waits for one."""
    next_try: Call | None = None
    """The call that the next try makes."""
    problem: Failure | None = None
    """The failure of the last try that was followed by another."""
    expired: bool = False
    """True if it timed out and was given up: it returns as soon as the run that answers it has ended."""
    spoilt: Failure | None = None
    """The reason why it was given up: the source gave an element that fits no output."""


class StepRun(msgspec.Struct, omit_defaults=True, gc=False):
    """The progress of a step; a step that is not in the state is `todo`."""

    state: str = "todo"
    """The state that it is in."""
    via: str = ""
    """The transition that led to it."""
    calls: dict[str, CallRun] = {}
    """Its calls that have not returned."""
    foreach: ForeachCalls | None = None
    """The common part of the calls of a `foreach`."""
    selected: tuple[int, ...] = ()
    """The elements of a `foreach`."""
    reached: int = 0
    """The number of selected elements that have had their call, or will get none."""
    produced: tuple[int, ...] = ()
    """The elements that its calls gave."""
    errors: tuple[int, ...] = ()
    """The error elements that its calls left."""
    fault: int | None = None
    """The error element that says what is wrong with its outputs."""
    watch: str = ""
    """The watch while it is blocked, rests, or follows the selection of its `foreach`."""
    called: float = 0.0
    """The moment of the last call of a step that is called again."""
    until: float = 0.0
    """The moment at which the next call is due, while it rests."""
    wake: str = ""
    """The timer of `until`."""

    @property
    def waiting(self) -> int:
        """The number of elements of a `foreach` that have had no call yet."""
        return len(self.selected) - self.reached


class TransitionRun(msgspec.Struct, omit_defaults=True, gc=False):
    """The progress of a transition; a transition that is not in the state is `wait-step`."""

    state: str = "wait-step"
    """The state that it is in."""
    took: tuple[int, ...] = ()
    """The elements that its conditions took."""
    counts: tuple[int, ...] = ()
    """The number of elements that each condition took, if not one."""
    watch: str = ""
    """The watch for the elements that its conditions lack, or for replacements of elements in `of`."""
    date: float = 0.0
    """The moment that it waits for."""
    wake: str = ""
    """The timer of its `date`; in wait-condition that of `until`."""
    come: bool = False
    """True once its date has come."""
    satisfied: tuple[Satisfied, ...] = ()
    """The elements that must fit for some time. They are recorded because the elements that they replaced may
    be forgotten.
    """
    until: float = 0.0
    """The moment at which the `satisfied` elements will have fitted long enough."""
    since: float = 0.0
    """The moment from which its appointments count."""
    given_up: bool = False
    """True if no further date of it will come."""
    of: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The elements that its date was computed from, by variable."""
    gone: tuple[int, ...] = ()
    """The elements in `of` that no longer count."""

    def taken_by(self, at: int) -> tuple[int, ...]:
        """The elements that the condition at a position took, counted from 0; none before it has fired."""
        if not self.counts:
            return self.took[at : at + 1]
        before = sum(self.counts[:at])
        return self.took[before : before + self.counts[at]] if at < len(self.counts) else ()

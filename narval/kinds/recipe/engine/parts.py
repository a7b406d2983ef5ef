"""The parts of a plan: the progress of its steps, calls and transitions; its moves, and theirs (N21).

A plan        ready → running → end → done      running → failed-end → failed
              any that is not over → cancelled, and failed when narval itself broke down
A step        todo → ready → running → end → done → history
              todo → impossible      end → error → history      ready, end → failed
A transition  wait-step → wait-time → wait-condition → fireable → fired, leaving out what it need not wait for
              wait-step, wait-time, wait-condition → impossible
              wait-step, wait-time → fail: an error link that does not hold, or no date comes any more
              wait-time → wait-time: another date, the clock having been set
              wait-condition → wait-condition: another watch, a variable having got its elements
"""

from __future__ import annotations

import msgspec

from narval.core.engines.commands import Call
from narval.core.engines.events import Failure

PLAN_MOVES: dict[str, frozenset[str]] = {
    "ready": frozenset({"running", "cancelled", "failed"}),
    "running": frozenset({"end", "failed-end", "cancelled", "failed"}),
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
"""The states of steps that have still to end."""


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


class Satisfied(msgspec.Struct, frozen=True, gc=False):
    """An element fits the condition of that number, counted from 1, since that moment (N38)."""

    condition: int
    eid: int
    since: float


class CallRun(msgspec.Struct, omit_defaults=True, gc=False):
    """A call that is not back: its elements, those that it reserved, and whether it is a source's.

    `tries` counts how often it was made, and `problem` is the failure of the last try that was followed by
    another. While it waits for `next_try`, `until` is the moment of that. `expired`: it was given up for its
    time limit, and will be back as soon as the run that answers it is over. `spoilt`: it was given up for
    that, a source that gave what fits no output.
    """

    inputs: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()
    source: bool = False
    tries: int = 1
    until: float | None = None
    next_try: Call | None = None
    problem: Failure | None = None
    expired: bool = False
    spoilt: Failure | None = None


class StepRun(msgspec.Struct, omit_defaults=True, gc=False):
    """The progress of a step; one that is not in the state is `todo`.

    Transition `via` led to it; `selected` are the elements of a `foreach`, of which the first `reached` have
    had their call or are to have none; `watch` is set while the step is blocked, rests, or follows what its
    `foreach` selects. With `until` the last call was made at the moment `called`; while it rests the next is
    due at `until`, for which `wake` is the timer (N40).
    """

    state: str = "todo"
    via: str = ""
    calls: dict[str, CallRun] = {}
    foreach: ForeachCalls | None = None
    selected: tuple[int, ...] = ()
    reached: int = 0
    produced: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    fault: int | None = None
    watch: str = ""
    called: float = 0.0
    until: float = 0.0
    wake: str = ""

    @property
    def waiting(self) -> int:
        """The number of elements of a `foreach` that have had no call yet."""
        return len(self.selected) - self.reached


class TransitionRun(msgspec.Struct, omit_defaults=True, gc=False):
    """The progress of a transition; one that is not in the state is `wait-step`.

    `took` are the elements of its conditions, of each so many as `counts` says, if not one. `wake` is the
    timer of its `date`, which has `come` or not, or is `given_up`; appointments are reckoned from `since`
    (N41), and from the elements `of` variables, which `watch` tells of until the date has come; `gone` are
    those that count no more (N45). In wait-condition `wake` is that of `until`, when the elements of
    `satisfied` will have fitted long enough (N38); these stay known from then on, for what they replaced may
    be forgotten.
    """

    state: str = "wait-step"
    took: tuple[int, ...] = ()
    watch: str = ""
    date: float = 0.0
    wake: str = ""
    come: bool = False
    satisfied: tuple[Satisfied, ...] = ()
    until: float = 0.0
    counts: tuple[int, ...] = ()
    since: float = 0.0
    given_up: bool = False
    of: tuple[tuple[str, tuple[int, ...]], ...] = ()
    gone: tuple[int, ...] = ()

    def taken_by(self, at: int) -> tuple[int, ...]:
        """The elements that the condition at a position took, counted from 0; none before it has fired."""
        if not self.counts:
            return self.took[at : at + 1]
        before = sum(self.counts[:at])
        return self.took[before : before + self.counts[at]] if at < len(self.counts) else ()

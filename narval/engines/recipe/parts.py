"""The parts of a plan: how far each step, call and transition has come, and its possible moves (N21)."""

from __future__ import annotations

import msgspec

from narval.engines.commands import Call
from narval.engines.events import Failure
from narval.engines.recipe.changes import ForeachCalls, Satisfied

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
"""Steps in these states have still to end."""


class CallRun(msgspec.Struct, omit_defaults=True, gc=False):
    """A call that is not back: the elements given, those of them it reserved, whether it is a source's.

    `tries` counts how often it was made. While it waits for the next try, `until` is when that will be made,
    `next_try` what will be asked, and `problem` why the last one failed. `expired`: it was given up for its
    time limit, and will be back as soon as the run that answers it is over.
    """

    inputs: tuple[int, ...] = ()
    reserved: tuple[int, ...] = ()
    source: bool = False
    tries: int = 1
    until: float | None = None
    next_try: Call | None = None
    problem: Failure | None = None
    expired: bool = False


class StepRun(msgspec.Struct, omit_defaults=True, gc=False):
    """A step as far as it has come; a step not in the state is `todo`.

    `via` led to it; `selected` are the elements of a `foreach`, `reached` how many of them have had their
    call or are to have none; `watch` is set while the step is held back.
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

    @property
    def waiting(self) -> int:
        """How many elements of a `foreach` are still to have their call."""
        return len(self.selected) - self.reached


class TransitionRun(msgspec.Struct, omit_defaults=True, gc=False):
    """A transition as far as it has come; one not in the state is `wait-step`.

    `date` is the one it waits for under `wake`, or waited for: it has `come`. In wait-condition `wake` is for
    `until`, when the elements of `satisfied` will have fitted long enough (N38); these are known from then
    on, for what they replaced may be forgotten.
    """

    state: str = "wait-step"
    took: tuple[int, ...] = ()
    watch: str = ""
    date: float = 0.0
    wake: str = ""
    come: bool = False
    satisfied: tuple[Satisfied, ...] = ()
    until: float = 0.0

"""The state of a plan (N21). `parts.py` has its parts and the tables of moves, `apply.py` what alters it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from narval.core.engines.run_state import Moves, RunState
from narval.kinds.recipe.engine.parts import PLAN_MOVES, StepRun, TransitionRun


class PlanState(RunState, omit_defaults=True, gc=False):
    """One run of a recipe."""

    KIND: ClassVar[str] = "plan"
    MOVES: ClassVar[Moves] = PLAN_MOVES

    waited: bool = False
    """True once it has waited for a date, or for an element that was not free; or, of a recipe that restarts,
    has waited for an element from elsewhere, or used one up.
    """
    steps: dict[str, StepRun] = {}
    transitions: dict[str, TransitionRun] = {}
    calls: dict[str, str] = {}
    """Calls that are not back, those included that wait for another try (N29): id to step."""
    waiting: dict[str, None] = {}
    """Transitions in wait-condition."""
    awaiting_date: dict[str, None] = {}
    """Transitions in wait-time whose date has not come."""
    awaiting_duration: dict[str, None] = {}
    """Transitions in wait-condition whose elements have not fitted long enough (N38)."""
    blocked: dict[str, None] = {}
    """Steps that are ready and wait for a reserved element (N18)."""
    following: dict[str, None] = {}
    """Steps of sources, which follow what their `foreach` selects, or what they were given (N36)."""
    resting: dict[str, None] = {}
    """Steps with `until` that wait for their next call (N40)."""
    in_error: dict[str, None] = {}
    """Steps in error that no transition has taken up yet (N26)."""
    followed: bool = False
    """True if another plan follows already the one from which this one was begun again: none follows this."""
    resumed: tuple[int, str] | None = None
    """The plan, and the step of it, from which this one was begun again."""
    again: dict[str, dict[str, tuple[int, ...]]] = {}
    """The elements that plan had used, by part and input or condition: this one may take them (N18)."""
    instead: dict[int, int] = {}
    """Elements that others have taken the place of, each with that (N45)."""

    def step(self, step: str) -> StepRun:
        """The progress of a step."""
        return self.steps.get(step, _TODO)

    def transition(self, transition: str) -> TransitionRun:
        """The progress of a transition."""
        return self.transitions.get(transition, _WAITING)

    @property
    def waits(self) -> tuple[dict[str, None], ...]:
        """The steps and transitions that wait, by what for."""
        of_transitions = self.waiting, self.awaiting_date, self.awaiting_duration
        return (*of_transitions, self.blocked, self.following, self.resting)

    @property
    def has_fired(self) -> bool:
        """True once a transition has fired."""
        return any(transition.state == "fired" for transition in self.transitions.values())

    def taken_before(self, part: str, slot: str) -> tuple[int, ...]:
        """The elements that an input or condition may take, though they are marked there."""
        return self.again.get(part, {}).get(slot, ())

    def progress(self) -> Iterator[tuple[str, str]]:
        """The steps and transitions that were reached, with their states."""
        for parts in (self.steps, self.transitions):
            yield from ((name, part.state) for name, part in parts.items())


_TODO = StepRun()
_WAITING = TransitionRun()

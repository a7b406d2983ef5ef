"""The state of a plan. `parts.py` has its parts and the tables of moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from narval.core.engines.run_state import Moves, RunState, illegal_move
from narval.kinds.recipe.engine.parts import (
    PLAN_MOVES,
    STEP_MOVES,
    TRANSITION_MOVES,
    CallRun,
    StepRun,
    TransitionRun,
)


class PlanState(RunState, omit_defaults=True, gc=False):
    """One run of a recipe."""

    KIND: ClassVar[str] = "plan"
    MOVES: ClassVar[Moves] = PLAN_MOVES

    waited: bool = False
    """True once it has waited for a date, a next call or a reserved element; in a recipe that restarts, also
    once it has waited for, or used up, an element from outside.
    """
    steps: dict[str, StepRun] = {}
    """The steps that were reached."""
    transitions: dict[str, TransitionRun] = {}
    """The transitions that were reached."""
    calls: dict[str, str] = {}
    """Calls that have not returned, including those that wait for another try: id to step."""
    waiting: dict[str, None] = {}
    """Transitions in wait-condition."""
    awaiting_date: dict[str, None] = {}
    """Transitions in wait-time whose date has not come."""
    awaiting_duration: dict[str, None] = {}
    """Transitions in wait-condition whose elements have not fitted long enough."""
    blocked: dict[str, None] = {}
    """Steps that are ready and wait for a reserved element."""
    following: dict[str, None] = {}
    """Steps of sources that follow changes of their `foreach` selection, or of their inputs."""
    resting: dict[str, None] = {}
    """Steps with `until` that wait for their next call."""
    in_error: dict[str, None] = {}
    """Steps in error that no transition has handled yet."""
    followed: bool = False
    """True if another plan already follows the plan that this one retries; none follows this one then."""
    resumed: tuple[int, str] | None = None
    """The plan and step that this plan was retried from."""
    again: dict[str, dict[str, tuple[int, ...]]] = {}
    """The elements used by the retried plan that this one may take, by part and input or condition."""
    instead: dict[int, int] = {}
    """Replaced elements, each with its replacement."""

    @property
    def is_first(self) -> bool:
        """True while no transition has fired, and no other plan follows this one already."""
        return not self.followed and not self.has_fired

    def step(self, step: str) -> StepRun:
        """The progress of a step."""
        return self.steps.get(step, _TODO)

    def transition(self, transition: str) -> TransitionRun:
        """The progress of a transition."""
        return self.transitions.get(transition, _WAITING)

    @property
    def waits(self) -> tuple[dict[str, None], ...]:
        """The steps and transitions that wait, by what they wait for."""
        of_transitions = self.waiting, self.awaiting_date, self.awaiting_duration
        return (*of_transitions, self.blocked, self.following, self.resting)

    @property
    def has_fired(self) -> bool:
        """True once a transition has fired."""
        return any(transition.state == "fired" for transition in self.transitions.values())

    def taken_before(self, part: str, slot: str) -> tuple[int, ...]:
        """The elements that an input or condition may take although they are marked as used."""
        return self.again.get(part, {}).get(slot, ())

    def progress(self) -> Iterator[tuple[str, str]]:
        """The steps and transitions that were reached, with their states."""
        for parts in (self.steps, self.transitions):
            yield from ((name, part.state) for name, part in parts.items())

    def move_step(self, step: str, to: str) -> StepRun:
        """Move a step to another state. Raises InternalError for a move that no table lists."""
        run = self.steps.get(step)
        if run is None:
            run = self.steps[step] = StepRun()
        if to not in STEP_MOVES[run.state]:
            raise illegal_move(self, f"step {step}", run.state, to)
        run.state = to
        return run

    def move_transition(self, transition: str, to: str) -> TransitionRun:
        """Move a transition to another state. Raises InternalError for a move that no table lists."""
        run = self.transitions.get(transition)
        if run is None:
            run = self.transitions[transition] = TransitionRun()
        if to not in TRANSITION_MOVES[run.state]:
            raise illegal_move(self, f"transition {transition}", run.state, to)
        run.state = to
        if self.waiting:
            self.waiting.pop(transition, None)
        if self.awaiting_date:
            self.awaiting_date.pop(transition, None)
        if run.satisfied:
            run.satisfied = ()
            self.end_duration(transition)
        return run

    def take_once(self, step: str, taken: tuple[int, ...]) -> None:
        """Let a step that is called again take marked elements only once."""
        for slot, eids in self.again.get(step, {}).items():
            self.again[step][slot] = tuple(eid for eid in eids if eid not in taken)

    def call_run(self, call: str) -> CallRun:
        """The progress of a call that has not returned."""
        return self.steps[self.calls[call]].calls[call]

    def end_step(self, step: str, to: str) -> StepRun:
        """Move a step from running through `end` to its outcome, in one change."""
        run = self.steps[step]
        if run.state != "running":
            raise illegal_move(self, f"step {step}", run.state, to)
        run.state = to
        if self.blocked:
            self.blocked.pop(step, None)
        if self.following:
            self.follow_no_more(step)
        return run

    def follow_no_more(self, step: str) -> None:
        """Stop a step of sources from following changes."""
        if step in self.following:
            del self.following[step]
            self.steps[step].watch = ""

    def end_duration(self, transition: str) -> None:
        """End a transition's wait for a duration."""
        if transition in self.awaiting_duration:
            del self.awaiting_duration[transition]
            run = self.transitions[transition]
            run.until, run.wake = 0.0, ""


_TODO = StepRun()
_WAITING = TransitionRun()

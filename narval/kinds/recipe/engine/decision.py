"""One advance of one plan: the decision that the parts of the recipe engine share, and the classes of
transitions.

A transition is *impossible* if an in-step can no longer end as its link requires, or its date was given up;
*undetermined* while an in-step has yet to end; and *potential* otherwise. Where all transitions to a step are
impossible, so is the step, and what follows from it (N22; §2.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

import msgspec

from narval.core.definitions.prototype import Context
from narval.core.elements.element import SIGNAL, Element
from narval.core.engines import commands
from narval.core.engines.candidates import Bindings, CandidateSearch
from narval.core.engines.dates import restart_wait
from narval.core.engines.decision import Decision, Wanted, resolve
from narval.core.engines.engine import Lookup
from narval.kinds.recipe.engine.changes import MadeImpossible, PlanChange, PlanMoved
from narval.kinds.recipe.engine.state import NOT_ENDED, PlanState
from narval.kinds.recipe.language.definition import Recipe, Step, Transition

PLAN = "plan"
"""The variable that stands for the plan's own element."""

SHARED = "#"
"""The mark shared by conditions that use each other's names."""


def bindings(recipe: Recipe, state: PlanState, variables: frozenset[str], element: Lookup) -> Bindings:
    """The elements that variables stand for.

    `$STEPID` stands for the products of the step, or for its errors if it has any; `$plan` for the plan
    element; the name of conditions for the elements they took when they fired. An element gives way to a
    replacement that the plan has followed.
    """
    bound: dict[str, tuple[Element, ...]] = {}
    for name in variables:
        if name in recipe.steps:
            step = state.step(name)
            eids = step.errors or step.produced
        elif name in recipe.names:
            taken = (state.transition(id).taken_by(at) for id, at in recipe.names[name])
            eids = tuple(dict.fromkeys(eid for eids in taken for eid in eids))
        else:
            eids = (state.eid,) if name == PLAN else ()
        if state.instead:
            eids = tuple([_version(state, eid) for eid in eids])
        elements = (element(eid) for eid in eids)
        bound[name] = tuple(present for present in elements if present is not None)
    return bound


def _version(state: PlanState, eid: int) -> int:
    """The version of an element that the plan uses: itself, or the replacement that the plan has followed."""
    while eid in state.instead:
        eid = state.instead[eid]
    return eid


def conditions_of(recipe: Recipe, state: PlanState, transition: Transition, element: Lookup) -> Wanted:
    """The conditions of a transition, whatever its state, with their variables resolved.

    If they use each other's names, an element that one of them uses is used for all of them: three failed
    logins of one host must not count again in another order.
    """
    names = partial(bindings, recipe, state, element=element)
    conditions = resolve(transition.conditions, recipe.full_name, transition.id, names)
    if not transition.inner_names:
        return conditions
    shared = recipe.full_name, transition.id, SHARED
    return [(bound, None if scope is None else shared) for bound, scope in conditions]


class RecipeDecision(Decision[Recipe, PlanState, PlanChange], kw_only=True, eq=False):
    """One advance of one plan, with the steps still to run or to follow."""

    RUN: ClassVar[str] = "plan"

    to_run: list[Step] = msgspec.field(default_factory=list)
    to_follow: list[Step] = msgspec.field(default_factory=list)
    sources_to_end: tuple[str, ...] = ()
    """Calls of sources that wait for another try, which must not be made."""

    # --- memory ---------------------------------------------------------------------------------------

    def add_error(
        self,
        kind: str,
        message: str,
        step: Step | None = None,
        *,
        detail: str = "",
        call: str = "",
        inputs: tuple[int, ...] = (),
        input: str = "",
        output: str = "",
        tries: int = 1,
        held: bool = True,
    ) -> int:
        """Add an error element that names plan, recipe, step and target; return its eid."""
        where: dict[str, str | int | None] = {}
        if step is not None:
            where[step.kind if step.kind != "recipe" else "target"] = step.target
            where["agent"] = step.agent
        where |= {"tries": tries if tries > 1 else None, "call": call, "input": input, "output": output}
        part = step.id if step is not None else ""
        return self.add_error_element(kind, message, part, detail, call, inputs, where, held=held)

    def bindings(self, variables: frozenset[str]) -> Bindings:
        """The elements that variables stand for."""
        return bindings(self.definition, self.state, variables, self.view.element)

    def any_from_elsewhere(self, eids: Iterable[int]) -> bool:
        """True if the recipe restarts, and some of these elements come from outside it, so that the restarts
        end.
        """
        return self.definition.restart != "no" and not all(self._is_homemade(eid) for eid in eids)

    def _is_homemade(self, eid: int) -> bool:
        """True if a plan of this recipe, or a run that such a plan called, made the element.

        Elements that its sources yield, and signals to it, come from outside.
        """
        element, name = self.view.element(eid), self.definition.full_name
        origin = element.origin if element is not None and element.name != SIGNAL else None
        run = origin.run if origin is not None else 0
        while run:
            if run == self.state.eid or self.view.name_of(run) == name:
                step = self.definition.steps.get(origin.step) if origin is not None else None
                target = None if step is None else self.view.definition(step.kind, step.target)
                return getattr(target, "where", "") != "source"
            caller, origin = self.view.caller(run), None
            run = caller.run if caller is not None else 0
        return False

    def surroundings(
        self,
        context: Context | None,
        nearby: tuple[tuple[int, ...], ...],
        arguments: tuple[Element, ...] = (),
    ) -> CandidateSearch:
        """The search for elements around a step or transition, nearest first."""
        bindings = None
        if context is not None:
            names = frozenset[str]().union(*(alternative.variables for alternative in context.alternatives))
            bindings = self.bindings(names)
        return CandidateSearch(self.view, self.state.eid, nearby, arguments, context, bindings)

    def products_of_in_steps(self, transition: Transition) -> tuple[int, ...]:
        """The products of the in-steps of a transition, oldest first; also errors for error links."""
        eids: tuple[int, ...] = ()
        for link in transition.ins:
            run = self.state.step(link.step.id)
            eids += run.produced
            if link.on_error:
                eids += run.errors
        return tuple(sorted(eids)) if len(eids) > 1 else eids

    # --- the end --------------------------------------------------------------------------------------

    def fail(self, error: int) -> None:
        """Fail the plan as soon as its running steps have ended (N27); `error` is the element that says
        why.
        """
        if self.state.status == "running":
            self._wind_up("failed-end", error)

    def end_reached(self) -> None:
        """End the plan because its end step is done: at once, or when its running steps have ended."""
        if self.state.calls:
            self._wind_up("end", None)
        else:
            self.stop_waiting()
            self.change(PlanMoved("done", self.event.at))

    def stop_waiting(self) -> None:
        """Drop watches, dates and durations, and steps that have not begun to run."""
        self.to_run.clear()
        self.to_follow.clear()
        for transition in self.state.waiting:
            self.command(commands.Unwatch(self.state.transition(transition).watch))
        for transition in self.state.awaiting_date:
            self.withdraw_date(transition)
        for transition in self.state.awaiting_duration:
            self.command(commands.CancelTimer(self.state.transition(transition).wake))
        for step in self.state.resting:
            self.command(commands.CancelTimer(self.state.step(step).wake))
        for step in (*self.state.blocked, *self.state.following, *self.state.resting):
            self.command(commands.Unwatch(self.state.step(step).watch))

    def stop_waiting_of(self, transition: str) -> None:
        """Drop the watch, date and duration of a transition."""
        if transition in self.state.waiting:
            self.command(commands.Unwatch(self.state.transition(transition).watch))
            if transition in self.state.awaiting_duration:
                self.command(commands.CancelTimer(self.state.transition(transition).wake))
        elif transition in self.state.awaiting_date:
            self.withdraw_date(transition)

    def withdraw_date(self, transition: str) -> None:
        """Stop waiting for the date of a transition, and watching the elements that it is computed from."""
        run = self.state.transition(transition)
        self.command(commands.CancelTimer(run.wake))
        if run.watch:
            self.command(commands.Unwatch(run.watch))

    def _wind_up(self, to: str, error: int | None) -> None:
        """Let running steps end by themselves; give up sources, which would run for ever."""
        self.stop_waiting()
        for identifier, step in self.state.calls.items():
            call = self.state.step(step).calls[identifier]
            if call.source and call.next_try is not None:
                self.sources_to_end += (identifier,)
            elif call.source and call.spoilt is None:
                self.ask(commands.CancelCall(identifier))
        self.change(PlanMoved(to, self.event.at, error))

    # --- the next plan of a recipe with `restart` -----------------------------------------------------

    def follow_end(self) -> None:
        """Start the plan that follows this one, which has ended."""
        state, restart = self.state, self.definition.restart
        if restart == "no" or state.followed or (restart == "parallel" and state.has_fired):
            return
        if state.status == "done":
            self.begin_next()
        elif state.status == "failed":
            at = self.event.at + restart_wait(state.attempt)
            self.command(commands.Start(state.definition, state.first, at, state.attempt + 1))

    def begin_next(self) -> None:
        """Start the next plan: at once, or a second after this one began if this one waited for nothing."""
        state = self.state
        at = None if state.waited else state.started + commands.RESTART_PAUSE
        late = at is None or at <= self.event.at
        self.command(commands.Start(state.definition, state.first, None if late else at))


# --- transitions that never fire --------------------------------------------------------------------------

IMPOSSIBLE, UNDETERMINED, POTENTIAL = "impossible", "undetermined", "potential"
OPEN = frozenset({"wait-step", "wait-time", "wait-condition"})
"""The states of a transition that may still fire."""


def classify(decision: RecipeDecision, transition: Transition) -> str:
    """The class of a transition: impossible, undetermined or potential (§2.4)."""
    undetermined = False
    for link in transition.ins:
        state = decision.state.step(link.step.id).state
        if state in NOT_ENDED:
            undetermined = True
        elif state != ("error" if link.on_error else "done"):
            return IMPOSSIBLE
    return UNDETERMINED if undetermined else POTENTIAL


def spread_impossible(decision: RecipeDecision, transitions: Iterable[Transition]) -> None:
    """Mark transitions that can no longer fire, steps that nothing else leads to, and so on."""
    pending = list(transitions)
    dead: dict[str, None] = {}
    lost: dict[str, None] = {}
    while pending:
        transition = pending.pop()
        state = decision.state.transition(transition.id).state
        if state in OPEN:
            if transition.id in dead or not _is_dead(decision, transition, lost):
                continue
            dead[transition.id] = None
            decision.stop_waiting_of(transition.id)
        elif state != "fail":
            continue
        for step in transition.outs:
            if step.id not in lost and _is_lost(decision, step, dead):
                lost[step.id] = None
                pending.extend(step.outs)
    if dead or lost:
        decision.change(MadeImpossible(tuple(dead), tuple(lost)))


def _is_dead(decision: RecipeDecision, transition: Transition, lost: dict[str, None]) -> bool:
    if decision.state.transition(transition.id).given_up or classify(decision, transition) == IMPOSSIBLE:
        return True
    return any(link.step.id in lost for link in transition.ins)


def _is_lost(decision: RecipeDecision, step: Step, dead: dict[str, None]) -> bool:
    if decision.state.step(step.id).state != "todo":
        return False
    return all(
        transition.id in dead or decision.state.transition(transition.id).state in ("impossible", "fail")
        for transition in step.ins
    )

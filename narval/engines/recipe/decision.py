"""What the parts of the plan engine share while one event is decided."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import ClassVar

import msgspec

from narval.definitions.recipe.definition import Recipe, Step, Transition
from narval.definitions.requirements import Context
from narval.engines import commands
from narval.engines.candidates import Bindings, CandidateSearch
from narval.engines.decision import Decision, Wanted, resolve
from narval.engines.engine import Lookup
from narval.engines.recipe.changes import PlanChange, PlanMoved
from narval.engines.recipe.state import PlanState
from narval.memory.elements.element import Element

PLAN = "plan"
"""The variable that stands for the plan's own element (N10)."""


def bindings(recipe: Recipe, state: PlanState, variables: frozenset[str], element: Lookup) -> Bindings:
    """What variables stand for: `$STEPID` what that step produced, `$plan` the plan element (N10)."""
    bound: dict[str, tuple[Element, ...]] = {}
    for name in variables:
        if name in recipe.steps:
            eids = state.step(name).produced
        else:
            eids = (state.eid,) if name == PLAN else ()
        found = (element(eid) for eid in eids)
        bound[name] = tuple(each for each in found if each is not None)
    return bound


def conditions_of(recipe: Recipe, state: PlanState, transition: Transition, element: Lookup) -> Wanted:
    """What a transition wants, whether it may still fire or not."""
    names = partial(bindings, recipe, state, element=element)
    return resolve(transition.conditions, recipe.full_name, transition.id, names)


class RecipeDecision(Decision[Recipe, PlanState, PlanChange], kw_only=True, eq=False):
    """One advance of one plan: what is known, what has been decided, and which steps are still to be run."""

    RUN: ClassVar[str] = "plan"

    to_run: deque[Step] = msgspec.field(default_factory=deque)
    to_follow: deque[Step] = msgspec.field(default_factory=deque)
    sources_to_end: list[str] = msgspec.field(default_factory=list)
    """Sources that wait for another try, and will not be tried."""

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
    ) -> int:
        """Add an error element that names plan, recipe, step and target (N17); its eid."""
        where: dict[str, str | int | None] = {}
        if step is not None:
            where[step.kind if step.kind != "recipe" else "target"] = step.target
        where |= {"tries": tries if tries > 1 else None, "call": call, "input": input, "output": output}
        part = step.id if step is not None else ""
        return self.add_error_element(
            kind, message, part, detail=detail, call=call, inputs=inputs, where=where
        )

    def bindings(self, variables: frozenset[str]) -> Bindings:
        """What variables stand for: `$STEPID` what that step produced, `$plan` the plan element (N10)."""
        return bindings(self.definition, self.state, variables, self.view.element)

    def surroundings(
        self, context: Context | None, near: tuple[tuple[int, ...], ...], arguments: tuple[Element, ...] = ()
    ) -> CandidateSearch:
        """Where a step or transition looks for elements, nearest first."""
        bindings = None
        if context is not None:
            names = frozenset[str]().union(*(each.variables for each in context.alternatives))
            bindings = self.bindings(names)
        return CandidateSearch(self.view, self.state.eid, near, arguments, context, bindings)

    def products_of_in_steps(self, transition: Transition) -> tuple[int, ...]:
        """What the in-steps of a transition produced, oldest first; errors too where the link takes them."""
        eids: tuple[int, ...] = ()
        for link in transition.ins:
            run = self.state.step(link.step.id)
            eids += run.produced
            if link.on_error:
                eids += run.errors
        return tuple(sorted(eids)) if len(eids) > 1 else eids

    # --- the end --------------------------------------------------------------------------------------

    def fail(self, error: int) -> None:
        """The plan fails, once its running steps have ended (N27); `error` is the element that says why."""
        if self.state.status == "running":
            self._wind_up("failed-end", error)

    def end_reached(self) -> None:
        """The end step is done; side branches may still run (N27)."""
        self._wind_up("end", None)

    def stop_waiting(self) -> None:
        """Nothing further fires: watches and dates go, and steps that are ready do not run."""
        self.to_run.clear()
        self.to_follow.clear()
        for transition in self.state.waiting:
            self.command(commands.Unwatch(self.state.transition(transition).watch))
        for transition in self.state.dated:
            self.command(commands.CancelTimer(self.state.transition(transition).wake))
        for transition in self.state.lasting:
            self.command(commands.CancelTimer(self.state.transition(transition).wake))
        for step in self.state.blocked:
            self.command(commands.Unwatch(self.state.step(step).watch))

    def _wind_up(self, to: str, error: int | None) -> None:
        """Running steps end by themselves; sources would go on for ever, and are given up (N36)."""
        self.stop_waiting()
        for identifier, step in self.state.calls.items():
            call = self.state.step(step).calls[identifier]
            if call.source and call.next_try is not None:
                self.sources_to_end.append(identifier)
            elif call.source:
                self.ask(commands.CancelCall(identifier))
        self.change(PlanMoved(to, self.event.at, error))

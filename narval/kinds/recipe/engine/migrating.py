"""A plan that continues with another version of its recipe, from where it is.

The steps and transitions that the plan has reached are looked up in the new version by name. The result must
be a state that a plan of the new version can reach: from the first step on, each reached step has a fired
transition that led to it, and each fired transition left steps that the plan has done. Unchanged parts keep
waiting; changed parts are decided again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from narval.core.engines import commands
from narval.core.engines.events import Migrated
from narval.core.engines.run_state import Migration, MovedPart, NoPlace, copied, misnamed, renamed
from narval.kinds.recipe.engine.changes import PlanMigrated
from narval.kinds.recipe.engine.decision import OPEN, POTENTIAL, RecipeDecision, classify, spread_impossible
from narval.kinds.recipe.engine.state import PlanState, StepRun, TransitionRun
from narval.kinds.recipe.engine.steps.running import limit_of
from narval.kinds.recipe.language.definition import Recipe, Step, Transition

_UNDER_WAY = {
    "kind": "the kind of what it calls",
    "target": "what it calls",
    "agent": "the agent whose definition it calls",
    "sending": "the way in which it sends",
    "foreach": "its `foreach`",
    "until": "its `until`",
    "every": "its `every`",
}
"""The fields of a step that must not change while it runs, with words for them."""

_OF_PLACE = frozenset({"id", "line", "places", "ins", "outs", "sole", "_declared", "_narrowed"})
"""The fields of a step that say where it is, not what it does."""


def migrated(old: Recipe, new: Recipe, state: PlanState, names: Mapping[str, str]) -> Migration:
    """The plan in another version of its recipe; `names` maps renamed parts, old to new."""
    if state.status != "running":
        why = "has not begun" if state.status == "ready" else f"is about to end: it is {state.status}"
        return Migration(state, refused=(NoPlace("", f"the plan {why}; try again then", old.line, True),))
    faults = misnamed(names, _parts(old), _parts(new))
    return Migration(state, refused=tuple(faults)) if faults else _Moving(old, new, state, names).migration()


def follow_version(decision: RecipeDecision, event: Migrated) -> None:
    """Continue with another version: changed parts stop waiting, and are decided again."""
    state, after = decision.state, msgspec.msgpack.decode(event.state, type=PlanState)
    watches, wakes = _watches(state), _wakes(state)
    _reset_lost(after, watches, wakes)
    keeps = {*_watches(after), *_wakes(after)}
    for watch in watches:
        if watch not in keeps:
            decision.command(commands.Unwatch(watch))
    for wake in wakes:
        if wake not in keeps:
            decision.command(commands.CancelTimer(wake))
    decision.change(PlanMigrated(event.version, after))
    definition = decision.definition
    spread_impossible(decision, definition.transitions.values())
    for id, run in state.steps.items():
        step = definition.steps[id]
        if run.state == "ready" and id not in state.blocked:
            decision.to_run.append(step)
        elif run.state in ("done", "error") and (
            step is definition.end or any(_is_undecided(decision, transition) for transition in step.outs)
        ):
            decision.to_follow.append(step)


def _is_undecided(decision: RecipeDecision, transition: Transition) -> bool:
    """True if a transition could be taken, and waits for nothing yet."""
    state, id = decision.state, transition.id
    return (
        state.transition(id).state in OPEN
        and id not in state.waiting
        and id not in state.awaiting_date
        and classify(decision, transition) == POTENTIAL
    )


# --- what a plan waits for --------------------------------------------------------------------------------


def _watches(state: PlanState) -> dict[str, None]:
    """The watches that a state names, in their order."""
    transitions = (*state.waiting, *state.awaiting_date)
    steps = (*state.blocked, *state.following, *state.resting)
    named = [state.transition(id).watch for id in transitions] + [state.step(id).watch for id in steps]
    return dict.fromkeys(filter(None, named))


def _wakes(state: PlanState) -> dict[str, None]:
    """The timers that a state names besides those of its calls."""
    named = [state.transition(id).wake for id in (*state.awaiting_date, *state.awaiting_duration)]
    return dict.fromkeys(filter(None, [*named, *(state.step(id).wake for id in state.resting)]))


def _reset_lost(state: PlanState, watches: Iterable[str], wakes: Iterable[str]) -> None:
    """Decide again the parts that wait for a watch or timer that is not in force."""
    for id in (*state.waiting, *state.awaiting_date):
        run = state.transition(id)
        if (run.watch and run.watch not in watches) or (run.wake and run.wake not in wakes):
            _decide_anew(state, id)
    for id in tuple(state.blocked):
        if state.step(id).watch not in watches:
            del state.blocked[id]
            state.steps[id].watch = ""


def _decide_anew(state: PlanState, id: str, *, keeps_date: bool = True) -> None:
    """End the waits of a transition; with `keeps_date`, a date that has come still counts as come."""
    run = state.transitions.pop(id)
    for waiting in (state.waiting, state.awaiting_date, state.awaiting_duration):
        waiting.pop(id, None)
    anew = TransitionRun(come=run.come and keeps_date, since=run.since)
    if anew != TransitionRun():
        state.transitions[id] = anew


# --- the plan in another version --------------------------------------------------------------------------


class _Moving:
    """The migration of one plan from one version to another."""

    def __init__(self, old: Recipe, new: Recipe, state: PlanState, names: Mapping[str, str]) -> None:
        self.old, self.new, self.before = old, new, state
        places = renamed(names, _parts(old), _parts(new))
        self.steps = {id: places[id] for id in old.steps if places.get(id) in new.steps}
        self.transitions: dict[str, str] = {}
        """The names of transitions in the new version, by their old names."""
        for transition in old.transitions.values():
            place = places.get(old.part_id(transition), "")
            there = new.transition_of(place) if place not in new.steps else None
            if there is not None:
                self.transitions[transition.id] = there.id
        self.after = replace(copied(state), steps={}, transitions={}, calls={}, again={})
        for waits in self.after.waits:
            waits.clear()
        self.after.in_error.clear()
        self.kept: list[MovedPart] = []
        self.gone: list[str] = []
        self.begins: list[str] = []
        self.refused: list[NoPlace] = []

    def migration(self) -> Migration:
        """The migration: the state in the new version, and the fate of each part."""
        state = copied(self.before)
        for id, run in state.steps.items():
            self._move_step(id, run)
        for id, transition in state.transitions.items():
            self._move_transition(id, transition)
        for part, slots in state.again.items():
            if (name := self.steps.get(part) or self.transitions.get(part)) is not None:
                self.after.again[name] = slots
        if not self.refused:
            self._check()
        had = {*self.steps.values()}, {*self.transitions.values()}
        new = [step for step in self.new.steps if step not in had[0]]
        new += [self.new.part_id(at) for at in self.new.transitions.values() if at.id not in had[1]]
        parts = tuple(self.kept), tuple(self.gone), tuple(new), tuple(self.begins), tuple(self.refused)
        return Migration(self.after, *parts)

    def _move_step(self, id: str, run: StepRun) -> None:
        if run.state in ("todo", "impossible"):  # computed again
            return
        step, name = self.old.steps[id], self.steps.get(id)
        if name is None:
            if run.state == "history":
                self.gone.append(id)
            else:
                why = f"step {id} is {run.state}, and the new version has no such step"
                self.refused.append(NoPlace(id, why, step.line, True))
            return
        after, then = self.after, self.new.steps[name]
        if run.state == "running" and (changed := _changed_under_way(step, then)):
            why = f"step {name} is under way, and {changed} has changed; wait until it ends"
            self.refused.append(NoPlace(name, why, then.line))
        run.via = self.transitions.get(run.via, "")
        after.steps[name] = run
        after.calls |= dict.fromkeys(run.calls, name)
        for waits, then_waits in zip(self.before.waits[3:], after.waits[3:], strict=True):
            if id in waits:
                then_waits[name] = None
        if id in self.before.in_error:
            after.in_error[name] = None
        if id in after.blocked and not _is_same_step(step, then):
            del after.blocked[name]
            run.watch = ""
        self.kept.append(MovedPart(id, name, run.state))

    def _move_transition(self, id: str, run: TransitionRun) -> None:
        if run.state == "impossible":  # computed again
            return
        before, name = self.old.transitions[id], self.transitions.get(id)
        if name is None:
            self.gone.append(self.old.part_id(before))
            return
        after, then = self.after, self.new.transitions[name]
        after.transitions[name] = run
        if run.state == "fired":
            self._align(before, then, run)
        elif self._is_same(before, then):
            for waits, then_waits in zip(self.before.waits[:3], after.waits[:3], strict=True):
                if id in waits:
                    then_waits[name] = None
        else:
            dates = before.times == then.times and before.appointments == then.appointments
            _decide_anew(after, name, keeps_date=dates)
        part = self.old.part_id(before), self.new.part_id(then)
        self.kept.append(MovedPart(*part, after.transition(name).state))

    def _is_same(self, before: Transition, then: Transition) -> bool:
        """True if a transition waits for the same things and leaves the same steps."""
        variables = frozenset[str]().union(
            *(one.condition.variables for one in then.conditions),
            *(appointment.variables for appointment in then.appointments),
        )
        left = {(self.steps.get(link.step.id), link.on_error) for link in before.ins}
        return (
            before.conditions == then.conditions
            and before.context == then.context
            and before.times == then.times
            and before.appointments == then.appointments
            and left == {(link.step.id, link.on_error) for link in then.ins}
            and all(self._stands_for_same(name) for name in variables)
        )

    def _stands_for_same(self, variable: str) -> bool:
        """True if a variable means the same part in both versions."""
        if variable in self.new.steps:
            return self.steps.get(variable) == variable
        places = [(self.transitions.get(id), at) for id, at in self.old.names.get(variable, ())]
        return variable not in self.old.steps and places == list(self.new.names.get(variable, ()))

    def _align(self, before: Transition, then: Transition, run: TransitionRun) -> None:
        """Assign the elements that the old conditions of a transition took to its new conditions."""
        were, are = ([one.name for one in of.conditions] for of in (before, then))
        if were == are or not run.took:
            return
        took = {name: run.taken_by(at) for at, name in enumerate(were) if name}
        for name in are:
            if name and name not in took:
                why = f"transition {then.id} has fired, and had no condition named {name}"
                self.refused.append(NoPlace(self.new.part_id(then), why, then.line))
        each = [took.get(name, ()) if name else () for name in are]
        run.took, run.counts = tuple(eid for eids in each for eid in eids), tuple(map(len, each))

    # --- whether a plan of the new version can reach the state --------------------------------------------

    def _check(self) -> None:
        """Refuse a state that no plan of the new version can reach; make steps ready that fired transitions
        now lead to.
        """
        steps, new = self.after.steps, self.new
        if new.start.id not in steps:
            why = f"the plan has begun with another step than {new.start.id}, which is the first now"
            self.refused.append(NoPlace(new.start.id, why, new.start.line))
            return
        fired = [new.transitions[id] for id, run in self.after.transitions.items() if run.state == "fired"]
        led_to = {new.start.id}
        ready: dict[str, str] = {}
        left: dict[str, str] = {}
        pending = fired
        while pending:
            waiting = [at for at in pending if not led_to.issuperset(at.sources)]
            for transition in pending:
                if transition not in waiting:
                    self._leave(transition, left)
                    led_to.update(transition.targets)
                    ready |= {id: transition.id for id in transition.targets if id not in steps}
            if len(waiting) == len(pending):
                self.refused += map(self._unfounded, waiting)
                break
            pending = waiting
        self.refused += self._unreached(led_to, left)
        if not self.refused:
            for id, via in ready.items():
                steps[id] = StepRun("ready", via)
                self.begins.append(id)

    def _leave(self, transition: Transition, left: dict[str, str]) -> None:
        """Record that a transition has left its steps; refuse it if the plan has not done them, or they were
        left before.
        """
        for id in transition.sources:
            run = self.after.steps.get(id)
            why = ""
            if run is None or run.state != "history":
                state = "not reached" if run is None else run.state
                why = f"it leaves step {id} now, which is {state}"
            elif id in left:
                why = f"so has {left[id]}, and both leave step {id} now: only one of them may"
            left[id] = transition.id
            if why:
                why = f"transition {transition.id} has fired; {why}"
                self.refused.append(NoPlace(self.new.part_id(transition), why, transition.line))

    def _unfounded(self, transition: Transition) -> NoPlace:
        missing = ", ".join(id for id in transition.sources if id not in self.after.steps)
        leaves = f"it leaves {missing} now, which the plan has not done" if missing else "nothing led to it"
        why = f"transition {transition.id} has fired, and {leaves}"
        return NoPlace(self.new.part_id(transition), why, transition.line)

    def _unreached(self, led_to: set[str], left: Mapping[str, str]) -> Iterator[NoPlace]:
        """The faults of reached steps: no transition led to them, none left them although they are history,
        or none leads on from them.
        """
        for id, run in self.after.steps.items():
            step = self.new.steps[id]
            if id not in led_to:
                why = f"step {id} is {run.state}, and no transition that has fired leads to it"
                yield NoPlace(id, f"{why} in the new version", step.line)
            elif run.state == "history" and id not in left:
                why = f"step {id} was left by a transition that the new version lacks; name its replacement"
                yield NoPlace(id, why, step.line)
            elif run.state in ("done", "error") and step is not self.new.end and not step.outs:
                yield NoPlace(id, f"step {id} is {run.state}, and nothing leads on from it", step.line)


def _changed_under_way(step: Step, then: Step) -> str:
    """Words for a forbidden change of a running step; "" if there is none."""
    if limit_of(step) != limit_of(then):  # the engine enforces it, and has a timer for it
        return "its `timeout`"
    changed = (words for field, words in _UNDER_WAY.items() if getattr(step, field) != getattr(then, field))
    return next(changed, "")


def _is_same_step(step: Step, then: Step) -> bool:
    """True if a step does the same in both versions."""
    fields = (field for field in step.__struct_fields__ if field not in _OF_PLACE)
    return all(getattr(step, field) == getattr(then, field) for field in fields)


def _parts(recipe: Recipe) -> dict[str, Any]:
    """The steps and transitions of a recipe by their ids among all parts."""
    transitions = {recipe.part_id(transition): transition for transition in recipe.transitions.values()}
    return {**recipe.steps, **transitions}

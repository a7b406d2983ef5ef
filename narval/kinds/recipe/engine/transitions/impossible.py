"""Transitions that will never fire, and the steps that only they lead to (N22; §2.4).

A transition is *impossible* if an in-step can no longer end as its link requires, or its date was given up;
*undetermined* while an in-step has yet to end; and *potential* otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

from narval.kinds.recipe.engine.changes import MadeImpossible
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.state import NOT_ENDED
from narval.kinds.recipe.language.definition import Step, Transition

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

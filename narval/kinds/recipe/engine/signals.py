"""Signals to a plan: each becomes an element that a condition may wait for.

`<signal name="approve" run="12">` contains the elements that came with it. It is addressed: the plan, and the
plans it calls, find it in their contexts. The search through all of memory skips it, so that approving one
order does not approve another. A signal that nothing waits for yet is not lost: a later condition finds it.
"""

from __future__ import annotations

from narval.core.engines.decision import element_of
from narval.core.engines.events import Signalled
from narval.core.errors import ElementError
from narval.kinds.recipe.engine.decision import RecipeDecision
from narval.kinds.recipe.engine.steps import repeats
from narval.kinds.recipe.engine.transitions import combinations, conditions, firing

LISTENING = frozenset({"ready", "running"})
"""The states in which a plan may still wait for something."""


def signalled(decision: RecipeDecision, event: Signalled) -> None:
    """Add a signal to memory, let it trigger a transition, and answer it."""
    if decision.state.status not in LISTENING:
        why = f"plan {decision.state.eid} is {decision.state.status}: it waits for nothing any more"
        decision.refuse(event, "not-listening", why)
        return
    try:
        xml = element_of(event, decision.state.eid)
    except ElementError as error:
        decision.refuse(event, error.kind, str(error))
        return
    refusal = decision.view.schema_fault(xml)
    if refusal is not None:
        decision.refuse(event, "invalid", refusal)
        return
    eid = decision.add_told(xml, event)
    decision.answer(event, eid=eid, taken_by=_offer(decision, eid))


def _offer(decision: RecipeDecision, eid: int) -> str | None:
    """The transition that took the signal at once, or the step that it ended; None if nothing waited
    for it.
    """
    for identifier in tuple(decision.state.waiting):
        watch = decision.state.transition(identifier).watch
        if identifier not in decision.state.waiting or not _concerns(decision, identifier, eid):
            continue
        firing.matched(decision, watch)
        if eid in decision.state.transition(identifier).took:
            return identifier
    for identifier in tuple(decision.state.resting):
        if (
            repeats.matched(decision, decision.state.step(identifier).watch)
            and identifier not in decision.state.resting
        ):
            return identifier
    return None


def _concerns(decision: RecipeDecision, identifier: str, eid: int) -> bool:
    """True if some condition of a transition may take the signal."""
    transition = decision.definition.transitions[identifier]
    look_up = conditions.wanted if transition.plain else combinations.relaxed
    return any(
        any(True for _ in decision.view.among((eid,), bound, scope))
        for bound, scope in look_up(decision, transition)
    )

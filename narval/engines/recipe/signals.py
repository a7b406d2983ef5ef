"""What a plan makes of a signal: an element of its own, which a condition may wait for.

`<signal name="approve" run="12">` holds what came with it. It is addressed: the plan, and the plans it calls,
find it in their contexts; the search through all of memory passes it over, so that to approve one order does
not approve another. A signal that nothing waits for yet is not lost: it is there when a condition asks.
"""

from __future__ import annotations

from narval.engines import commands, signal_element
from narval.engines.events import Failure, Signalled
from narval.engines.recipe import transitions
from narval.engines.recipe.decision import RecipeDecision
from narval.errors import ElementError

LISTENING = frozenset({"ready", "running"})
"""In these states something may still be waited for."""


def signalled(plan: RecipeDecision, event: Signalled) -> None:
    """Someone said something: it becomes an element, what waits for it goes on, and it is answered."""
    if plan.state.state not in LISTENING:
        why = f"plan {plan.state.run} is {plan.state.state}: it waits for nothing any more"
        plan.ask(commands.Answer(event.signal, problem=Failure("not-listening", why)))
        return
    try:
        xml = signal_element.element(plan.state.run, event)
    except ElementError as error:
        plan.ask(commands.Answer(event.signal, problem=Failure(error.kind, str(error))))
        return
    refusal = plan.view.schema_fault(xml)
    if refusal is not None:
        plan.ask(commands.Answer(event.signal, problem=Failure("invalid", refusal)))
        return
    eid = plan.add(xml, call=event.signal)
    taken_by = _offer(plan, eid)
    plan.ask(commands.Answer(event.signal, {"eid": eid, "taken_by": taken_by}))


def _offer(plan: RecipeDecision, eid: int) -> str | None:
    """The transition that took the signal at once, if one waited for it."""
    for identifier in tuple(plan.state.waiting):
        watch = plan.state.transition(identifier).watch
        if identifier not in plan.state.waiting or not _concerns(plan, identifier, eid):
            continue
        transitions.matched(plan, watch)
        if eid in plan.state.transition(identifier).took:
            return identifier
    return None


def _concerns(plan: RecipeDecision, identifier: str, eid: int) -> bool:
    """Whether some condition of a transition may take the signal."""
    transition = plan.recipe.transitions[identifier]
    return any(
        any(True for _ in plan.view.among((eid,), bound, scope))
        for bound, scope in transitions.wanted(plan, transition)
    )

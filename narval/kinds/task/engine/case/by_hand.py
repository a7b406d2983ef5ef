"""By hand: what people do about a case that cannot go on by itself (K16, KA20)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from narval.core.engines.events import Signalled
from narval.kinds.task.engine.case import compensation
from narval.kinds.task.engine.case.decision import CaseDecision
from narval.kinds.task.engine.case.state import step_id


def _retry(decision: CaseDecision, event: Signalled) -> None:
    """Let a blocked chain go on, or put what is held to its type again, or to another that is named."""
    state = decision.state
    if state.status == "blocked":
        number = compensation.resume(decision, event.by)
        decision.answer(event, step=step_id(number), compensator=state.trail[number].compensator)
        return
    object, type = event.arguments.get("object"), event.arguments.get("type") or ""
    held = [
        identity
        for identity, member in state.members.items()
        if member.state == "held" and object in (None, 0, identity, member.now)
    ]
    if not held:
        which = f"object {object}" if object else "no object of it"
        decision.refuse(event, "not-held", f"case {state.eid} is {state.status}: {which} is held")
    elif type and decision.find_type(str(type)) is None:
        decision.refuse(event, "no-type", f"expected a task type that is loaded, got {type!r:.80}")
    elif not all(type or state.members[identity].type for identity in held):
        unrouted = next(identity for identity in held if not state.members[identity].type)
        why = f"object {state.members[unrouted].now} was not routed; name the type where it is to go"
        decision.refuse(event, "no-type", why)
    else:
        decision.answer(event, objects=[state.members[identity].now for identity in held])
        for identity in held:
            decision.put(identity, str(type or state.members[identity].type), by_hand=True)


def _cancel(decision: CaseDecision, event: Signalled) -> None:
    """Withdraw all objects, and compensate what was done."""
    why = event.arguments.get("why")
    decision.answer(event)
    if decision.state.status == "ready":
        decision.end("cancelled")
        return
    compensation.cancel(decision, str(why or ""), event.by)


DONE: Mapping[str, Callable[[CaseDecision, Signalled], None]] = {"retry": _retry, "cancel": _cancel}
"""The acts of people, by the name of the signal."""

"""The end of an instance (K16, K45, K55, K58): what is under way comes back first; what it took goes back."""

from __future__ import annotations

from narval.definitions.task.definition import EXCEPTION
from narval.engines import commands
from narval.engines.events import Plain
from narval.engines.task import moves
from narval.engines.task.changes import EndingBegan, InstanceOver, ServerLeft, SignalLeft
from narval.engines.task.decision import InstanceDecision
from narval.memory.elements.element import Element

_UNDER_WAY = ("code", "script", "raise", "ended", "routed", "launch")


def begin_end(
    decision: InstanceDecision,
    outcome: str,
    why: str = "",
    *,
    error: int | None = None,
    gives_back: bool | None = None,
) -> None:
    """End in a status once nothing is under way. With `gives_back` what is, is given up; where that is true,
    an object that is not done goes back to its queue.
    """
    state = decision.state
    moves.drop_scripts(decision, why or outcome)
    if gives_back is not None:
        for call, purpose in state.calls.items():
            if purpose == "take":
                decision.command(commands.CancelCall(call))
        moves.give_up(decision, *_UNDER_WAY)
    is_there = bool(state.object) and state.stage in ("busy", "entered", "routes") and not state.compensates
    for signal, kept in tuple(state.line.items()):
        decision.change(SignalLeft(signal))
        if kept.name == "act":
            decision.ask(commands.Answer(signal, {"state": False}))
        else:
            decision.turn_down(signal, "over", f"instance {state.eid} ends: {outcome}")
    decision.answer_asker()
    decision.change(EndingBegan(decision.event.at, outcome, why, bool(gives_back) and is_there, error))


def end(decision: InstanceDecision) -> bool:
    """Take the last steps, once nothing is under way; False while something is."""
    state = decision.state
    if state.calls:
        return False
    if not state.left:
        _leave(decision)
        return True
    if state.wake:
        decision.command(commands.CancelTimer(state.wake))
    outcome, error = state.outcome, state.error
    decision.change(InstanceOver(decision.event.at, outcome))
    given: tuple[int, ...] = ()
    if state.object and not state.gives_back:
        given = (state.object, *state.produced)
    elif state.given and not state.object:
        given = (state.given,)  # it was given away, so that the server is not to take it back
    failed = state.PHASES[outcome] == "failed" and error is not None
    decision.report_end((error,) if failed and error is not None else given)
    return True


def _leave(decision: InstanceDecision) -> None:
    """Tell the server that it works no more, and give the object back as it was (K16)."""
    state = decision.state
    eid = _rolled_back(decision) if state.gives_back else 0
    if eid or state.joined:
        told: dict[str, Plain] = {"instance": state.eid, "object": eid, "front": bool(eid)}
        decision.tell("down", told, (eid,) if eid else (), purpose="down")
    decision.change(ServerLeft(eid))


def _rolled_back(decision: InstanceDecision) -> int:
    """The object as it was at its last commit: a new version of it, if it was altered since."""
    state = decision.state
    before = decision.view.element(state.given)
    if state.object == state.given or before is None:
        return state.object
    eid = decision.add(Element(0, before.xml), decision.part, inputs=(state.object,))
    decision.command(commands.Outdate((state.object,)))
    return eid


def fail(decision: InstanceDecision, kind: str, message: str) -> None:
    """Go to EXCEPTION (KA29). What fails there, or once the case knows, is left out."""
    state = decision.state
    if state.outcome:
        return
    inputs = (state.object,) if state.object else ()
    where: dict[str, str | int | None] = {"object": state.object or None}
    error = decision.add_error_element(kind, message, decision.part, inputs=inputs, where=where)
    if decision.definition.is_global:
        begin_end(decision, "failed", message, error=error)
    elif state.stage in ("told", "after") or state.state == EXCEPTION:
        moves.drop_scripts(decision, message)
    else:
        moves.enter(decision, EXCEPTION, message, error)

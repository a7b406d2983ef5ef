"""The end of an instance (K16, K45, K55, K58): what is under way comes back first; what it took goes back."""

from __future__ import annotations

from narval.core.elements.element import Element
from narval.core.engines import commands
from narval.core.engines.calls.backoff import wait
from narval.core.engines.events import Plain
from narval.kinds.task.engine import changes, moves
from narval.kinds.task.engine.decision import InstanceDecision
from narval.kinds.task.engine.values import ScriptFault
from narval.kinds.task.language.definition import EXCEPTION

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
    is_here = bool(state.object) and state.stage in ("busy", "entered", "routes")
    if gives_back is not None and is_here:
        roll_back(decision)
    is_there = is_here and not state.compensates
    for signal, kept in tuple(state.line.items()):
        decision.change(changes.SignalLeft(signal))
        if kept.name == "act":
            decision.ask(commands.Answer(signal, {"state": False}))
        else:
            decision.turn_down(signal, "over", f"instance {state.eid} ends: {outcome}")
    decision.answer_asker()
    decision.change(
        changes.EndingBegan(decision.event.at, outcome, why, bool(gives_back) and is_there, error)
    )


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
    decision.change(changes.InstanceOver(decision.event.at, outcome))
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
    eid = state.object if state.gives_back else 0
    if eid or state.joined:
        told: dict[str, Plain] = {"instance": state.eid, "object": eid, "front": bool(eid)}
        decision.tell("down", told, (eid,) if eid else (), purpose="down")
    decision.change(changes.ServerLeft(eid))


def roll_back(decision: InstanceDecision) -> None:
    """Have the object as it was last committed: a new version of that, if it was replaced since."""
    state, view = decision.state, decision.view
    committed, current = view.element(state.given), view.current(state.object)
    if not state.object or committed is None:
        return
    now = view.element(current) if current is not None else None
    if now is not None and now.xml == committed.xml:
        eid = now.eid
    else:
        eid = decision.add(Element(0, committed.xml), decision.part, inputs=(current or state.object,))
        if current is not None:
            decision.command(commands.Outdate((current,)))
    if eid != state.object:
        decision.change(changes.ObjectReplaced(state.object, eid))


def script_failed(decision: InstanceDecision, fault: ScriptFault) -> None:
    """Go on after a script that failed: an action fails with its event alone, any other is an EXCEPTION."""
    frames = decision.state.frames
    if frames and frames[-1].kind == "action" and not decision.definition.is_global:
        _action_failed(decision, fault)
    else:
        fail(decision, fault)


def try_again(decision: InstanceDecision, fault: ScriptFault) -> bool:
    """Have the call of an action made again that failed, if its rule has retries left; False if not."""
    frame = decision.state.frames[-1]
    rule = decision.rule(frame)
    if rule is None or fault.final or frame.tries >= rule.retries:
        return False
    *outer, place = frame.position
    wake, until = decision.identifier(), decision.event.at + wait(None, frame.tries + 1, decision.event.id)
    decision.change(changes.ScriptRested((*outer, place - 1), wake, until, fault.message))
    decision.command(commands.SetTimer(wake, until))
    return True


def _action_failed(decision: InstanceDecision, fault: ScriptFault) -> None:
    """End an action as failed, with an error element; the instance stays in its state and goes on."""
    frame = decision.state.frames[-1]
    _add_error(decision, fault)
    decision.free(frame.reserved, well=False)
    moves.answer_act(decision, frame, fault.message)
    decision.change(changes.ScriptEnded())


def _add_error(decision: InstanceDecision, fault: ScriptFault) -> int:
    eid = decision.state.object
    where: dict[str, str | int | None] = {"object": eid or None}
    inputs = (eid,) if eid else ()
    return decision.add_error_element(fault.kind, fault.message, decision.part, inputs=inputs, where=where)


def fail(decision: InstanceDecision, fault: ScriptFault) -> None:
    """Go to EXCEPTION (KA29). What fails there, or once the case knows, is left out."""
    state, message = decision.state, fault.message
    if state.outcome:
        return
    error = _add_error(decision, fault)
    if decision.definition.is_global:
        begin_end(decision, "failed", message, error=error)
    elif state.stage in ("told", "after") or state.state == EXCEPTION:
        moves.drop_scripts(decision, message)
    else:
        moves.enter(decision, EXCEPTION, message, error)

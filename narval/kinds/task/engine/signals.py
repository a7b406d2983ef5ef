"""Signals to an instance: from its server, its program, and people (K49–K52, K55, K57).

Signals that move the instance wait in line until no script is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from narval.core.engines import commands
from narval.core.engines.events import LABELS, Plain, Signalled
from narval.kinds.task.engine import changes, moves, scripts
from narval.kinds.task.engine.decision import InstanceDecision
from narval.kinds.task.engine.moves import begin_end
from narval.kinds.task.engine.state import KeptSignal, ScriptFrame
from narval.kinds.task.engine.values import RefusedSignal, ScriptFault
from narval.kinds.task.language.definition import outcome_of

Arguments = Mapping[str, Plain]


def signalled(decision: InstanceDecision, event: Signalled) -> None:
    """Handle a signal now, or keep it in line; refuse one that the sender may not send."""
    state = decision.state
    if not event.sender and event.act is None:
        decision.refuse(event, "not-listening", "an instance is moved by narval task, which knows who asks")
    elif event.name == "gone":
        _forget(decision, event.text("signal"))
    elif event.name == "act" and event.sender and (state.over or state.outcome):
        decision.answer(event, state=False)
    elif state.over or state.outcome:
        decision.refuse(event, "over", f"instance {state.eid} is {state.status}; begin another")
    elif event.name in _AT_ONCE:
        _renew(decision)
        _AT_ONCE[event.name](decision, event)
    elif event.name == "move" and event.sender:
        _move(decision, event)
    elif event.name == "act" if event.sender else event.name in _IN_TURN and event.name != "act":
        _renew(decision)
        if state.frames or state.line or state.stage not in ("", "busy"):
            decision.change(changes.SignalKept(event.signal, event.name, dict(event.arguments)))
        else:
            _obey(decision, event.signal, KeptSignal(event.name, event.arguments))
    else:
        names = ", ".join(name for name in (*_IN_TURN, *_AT_ONCE) if name != "act")
        decision.refuse(event, "not-listening", f"expected {names}, got {event.name!r:.80}")


def hear(decision: InstanceDecision) -> None:
    """Handle the first signal in line. Raises ScriptFault if a script that it begins fails."""
    signal, first = next(iter(decision.state.line.items()))
    decision.change(changes.SignalLeft(signal))
    _obey(decision, signal, first)


def _obey(decision: InstanceDecision, signal: str, line_signal: KeptSignal) -> None:
    try:
        _IN_TURN[line_signal.name](decision, signal, line_signal)
    except RefusedSignal as refusal:
        decision.turn_down(signal, refusal.kind, refusal.message)


def _forget(decision: InstanceDecision, signal: str) -> None:
    """Forget a signal that no longer needs an answer, and give up its request for an object."""
    state = decision.state
    for call in [call for call, answered in state.answered.items() if answered == signal]:
        if state.calls[call] == "take":
            decision.command(commands.CancelCall(call))
            join(decision)
    decision.change(changes.SignalLeft(signal))


def join(decision: InstanceDecision) -> None:
    """Join the server; an instance that gave up a request joins again, as that made it leave."""
    state = decision.state
    who: dict[str, Plain] = {"user": state.user, "role": state.role, "program": state.program}
    decision.tell("join", {"instance": state.eid, **who})


# --- in turn --------------------------------------------------------------------------------------------


def _act(decision: InstanceDecision, signal: str, line_signal: KeptSignal) -> None:
    """Do the action of a rule, if the instance is still in its state."""
    state, said = decision.state, line_signal.arguments
    event, where, rule = _text(said, "name"), _text(said, "state"), number_in(said, "rule")
    if state.stage != "busy" or state.state != where:
        decision.ask(commands.Answer(signal, {"state": False}))
        return
    rules = decision.definition.rules_for(where, event)
    if rule >= len(rules):
        raise RefusedSignal(
            "no-rule", f"state {where} has {len(rules)} rules for {event}, and no number {rule}"
        )
    parameters_said = said.get("parameters")
    parameters = (
        {str(name): str(value) for name, value in parameters_said.items()}
        if isinstance(parameters_said, dict)
        else {}
    )
    carried, case = number_in(said, "object"), number_in(said, "case")
    if carried:
        decision.add_to_context((carried,))
    adopts = bool(carried) and not state.object
    if adopts:
        decision.change(changes.ObjectAdopted(carried, case))
        decision.tell_state(adopts=number_in(said, "event"))  # the event no longer carries it (K59)
        scripts.tell_moved(decision, case, carried)
    frame = ScriptFrame("action", where, "", event, rule, parameters, carried, case, signal, adopted=adopts)
    decision.change(changes.ScriptBegan(frame))
    scripts.follow(decision)


def _assert(decision: InstanceDecision, signal: str, line_signal: KeptSignal) -> None:
    state = decision.state
    _need_state(decision)
    target = decision.named(_text(line_signal.arguments, "state"))
    edges = decision.definition.states[state.state].edges
    if target == state.state == decision.definition.initial and target not in edges.values():
        decision.change(changes.AskerSet(signal))  # it was entered when the object was given (K58)
        return
    _go(decision, signal, target)


def _raise_edge(decision: InstanceDecision, signal: str, line_signal: KeptSignal) -> None:
    """Move along the edge of an event."""
    _need_state(decision)
    event, state = _text(line_signal.arguments, "event"), decision.state.state
    edges = decision.definition.states[state].edges
    if event not in edges:
        raise RefusedSignal(
            "no-edge", f"state {state} has no edge {event}; it has {', '.join(edges) or 'none'}"
        )
    _go(decision, signal, edges[event])


def _move(decision: InstanceDecision, event: Signalled) -> None:
    """Move along an edge to the state chosen by the person who has the work item."""
    state, word = decision.state, event.text("state")
    caller = decision.view.caller(event.sender)
    if caller is None or caller.run != state.eid:
        decision.refuse(event, "not-listening", f"run {event.sender} is not asked by this task")
    elif state.stage != "busy" or state.frames or state.line:
        decision.refuse(event, "busy", "the scripts of the last move run; try again")
    else:
        edges = decision.definition.states[state.state].edges.values()
        target = next((name for name in edges if outcome_of(name) == word), word)
        try:
            scripts.follow(decision)
            moves.move(decision, target)
        except ScriptFault as fault:
            if fault.kind != "no-edge":
                raise
            decision.refuse(event, fault.kind, fault.message)
        else:
            decision.answer(event, state=target)


def _need_state(decision: InstanceDecision) -> None:
    if decision.state.stage != "busy":
        raise RefusedSignal("no-object", "it is in no state: it has no object; get one first")


def _go(decision: InstanceDecision, signal: str, target: str) -> None:
    try:
        decision.change(changes.AskerSet(signal))
        scripts.follow(decision)  # its program may have replaced the object
        moves.move(decision, target)
    except ScriptFault as fault:
        if fault.kind != "no-edge":
            raise
        decision.change(changes.AskerSet())
        raise RefusedSignal(fault.kind, fault.message) from None


def _get(decision: InstanceDecision, signal: str, line_signal: KeptSignal) -> None:
    """Ask for the next object. If a program asks again, as after a restart, the last request is
    answered.
    """
    state = decision.state
    if state.stage:
        why = f"object {state.object} is not done: assert a final state"
        raise RefusedSignal("busy", f"no other object now: {why}")
    asked = next((call for call, purpose in state.calls.items() if purpose == "take"), None)
    if asked is not None:
        if earlier := state.answered.get(asked):
            decision.turn_down(earlier, "busy", "the object was asked for again; who asked last gets it")
        decision.change(changes.CallAsked(asked, "take", signal))
    else:
        decision.tell("take", {"instance": state.eid}, purpose="take", answers=signal)


def _raise(decision: InstanceDecision, signal: str, line_signal: KeptSignal) -> None:
    """Raise an event at another type, for the program; with `carries` it carries the object."""
    said, state = line_signal.arguments, decision.state
    try:
        target = decision.task(_text(said, "type"))
    except ScriptFault as fault:
        raise RefusedSignal(fault.kind, fault.message) from None
    carries = bool(said.get("carries"))
    if carries:
        scripts.follow(decision)
    if carries and not state.object:
        raise RefusedSignal(
            "no-object", "there is no object to hand over: it was given away, or none was taken"
        )
    parameters = said.get("parameters")
    more = {name: said[name] for name in ("mode", "users", "roles", LABELS) if name in said}
    scripts.raise_event(
        decision,
        target.full_name,
        _text(said, "event"),
        list(parameters) if isinstance(parameters, list) else [],
        carries=carries,
        purpose="raise",
        answers=signal,
        **more,
    )


# --- at once --------------------------------------------------------------------------------------------


def _stop(decision: InstanceDecision, event: Signalled) -> None:
    """Stop the instance: its object is rolled back, and returns to the queue unless it was withdrawn.
    If an object is named, only work on that object is stopped.
    """
    withdrawn, eid = bool(event.arguments.get("withdrawn")), event.number("object")
    if not eid or (decision.state.object and decision.state.given == eid):
        begin_end(decision, "stopped", event.text("why"), gives_back=not withdrawn)
    decision.answer(event)


def _finish(decision: InstanceDecision, event: Signalled) -> None:
    """Go to a terminal state, regardless of edges."""
    target = decision.named(event.text("state"))
    if target not in decision.definition.states or not decision.definition.is_terminal(target):
        ends = ", ".join(name for name in decision.definition.states if decision.definition.is_terminal(name))
        decision.refuse(event, "no-state", f"expected a terminal state ({ends}), got {target!r:.80}")
    elif decision.state.stage != "busy":
        decision.refuse(event, "no-object", "it has no object that could be finished; stop it instead")
    else:
        with suppress(ScriptFault):  # whatever happened to the object, the work on it ends
            scripts.follow(decision)
        why = event.text("why") or f"{event.by or 'somebody'} has finished it"
        moves.enter(decision, target, why)
        decision.answer(event, state=target)


def _down(decision: InstanceDecision, event: Signalled) -> None:
    """End the work of a program."""
    begin_end(decision, "done", gives_back=True)
    decision.answer(event)


def _renewed(decision: InstanceDecision, event: Signalled) -> None:
    decision.answer(event, until=decision.state.lease_until)


def _renew(decision: InstanceDecision) -> None:
    """Renew the lease of a program, which has shown that it is alive."""
    if decision.state.program and decision.state.lease:
        decision.change(changes.LeaseRenewed(decision.event.at + decision.state.lease))


def _text(said: Arguments, name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""


def number_in(said: Arguments, name: str) -> int:
    """A whole number among arguments; 0 without one."""
    value = said.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


_IN_TURN: Mapping[str, Callable[[InstanceDecision, str, KeptSignal], None]] = {
    "act": _act,
    "assert": _assert,
    "raise-edge": _raise_edge,
    "get": _get,
    "raise": _raise,
}

_AT_ONCE: Mapping[str, Callable[[InstanceDecision, Signalled], None]] = {
    "stop": _stop,
    "finish": _finish,
    "down": _down,
    "renew": _renewed,
}

"""Moves from state to state (K25–K27, K49): LEAVE of the old, ASSERT of the new, then the state is recorded.
Also the end of an instance (K16, K45, K55, K58): its calls return first, then its unfinished object goes
back.
"""

from __future__ import annotations

from typing import Any

from narval.core.elements.element import Element
from narval.core.engines import commands
from narval.core.engines.dates import retry_wait
from narval.core.engines.events import Plain
from narval.kinds.task.engine import changes, scripts
from narval.kinds.task.engine.decision import InstanceDecision
from narval.kinds.task.engine.state import Route, ScriptFrame
from narval.kinds.task.engine.values import ScriptFault
from narval.kinds.task.language.definition import EXCEPTION

MOST_MOVES = 1000
"""The most states entered in one advance: this stops a script that asserts in a circle."""

MOST_SCRIPTS = 100
"""The most nested scripts: each asserted a state, and waits for the scripts of that move."""


def move(decision: InstanceDecision, target: str) -> None:
    """Leave the state for another, along an edge. Raises ScriptFault if there is none."""
    state = decision.state.place
    task_state = decision.definition.states.get(state)
    edges = set(task_state.edges.values()) if task_state is not None else set()
    target = decision.named(target)
    if target not in edges:
        there = ", ".join(sorted(edges)) or "none"
        raise ScriptFault("no-edge", f"no edge leads from {state} to {target}; those that do lead to {there}")
    decision.moves += 1
    if decision.moves > MOST_MOVES or len(decision.state.frames) > MOST_SCRIPTS:
        raise ScriptFault("endless", "scripts assert states again and again, and there is no end of it")
    if decision.state.entering:  # its ASSERT code asserts another state: the rest of it does not run
        entered(decision)
    if task_state is not None and task_state.on_leaving:
        decision.change(changes.ScriptBegan(ScriptFrame("leaving", state, target)))
    else:
        enter(decision, target)


def enter(decision: InstanceDecision, target: str, why: str = "", error: int | None = None) -> None:
    """Go to a state; it is entered at once, or once its ASSERT code has run."""
    definition, state = decision.definition, decision.state
    is_terminal = definition.is_terminal(target)
    if is_terminal or why:
        drop_scripts(decision, why)
    task_state = definition.states.get(target)
    if task_state is not None and task_state.on_assert:
        decision.change(changes.EntryBegan(decision.event.at, target, is_terminal, why, error))
        decision.change(changes.ScriptBegan(ScriptFrame("assert", target)))
    else:
        entered(decision, target, why, error)
    if is_terminal and not state.asker:  # code that asserts a state by itself runs to its end
        give_up(decision, "code")


def entered(decision: InstanceDecision, target: str = "", why: str = "", error: int | None = None) -> None:
    """Enter a state, by default the one whose ASSERT code has run; tell the server if it or the last has
    rules.
    """
    definition, state = decision.definition, decision.state
    target, before = target or state.entering, state.state
    task_state, is_terminal = definition.states.get(target), definition.is_terminal(target)
    exposed = task_state is None or task_state.exposed
    decision.change(
        changes.StateEntered(decision.event.at, target, state.object, is_terminal, exposed, why, error)
    )
    if decision.has_rules(target) or decision.has_rules(before):
        decision.tell_state()


def give_up(decision: InstanceDecision, *purposes: str) -> None:
    """Give up the calls with these purposes; the instance waits until they are gone."""
    for call, purpose in tuple(decision.state.calls.items()):
        if purpose in purposes:
            decision.command(commands.CancelCall(call))
            if purpose == "code":
                decision.free(decision.state.reserved, well=False)
            decision.change(changes.CallDropped(call))


def drop_scripts(decision: InstanceDecision, why: str = "") -> None:
    """Stop the scripts under way. An action among them is answered as done, or as failed if there is a
    reason.
    """
    if not decision.state.frames:
        return
    give_up(decision, "script")
    for frame in reversed(decision.state.frames):
        decision.free(frame.reserved, well=False)
        if frame.wake:
            decision.command(commands.CancelTimer(frame.wake))
        if frame.signal:
            answer_act(decision, frame, why)
    decision.change(changes.ScriptsDropped(why))


def script_over(decision: InstanceDecision) -> None:
    """Continue after a script: a left state is final, and an action is answered."""
    frame = decision.state.frames[-1]
    if frame.signal:
        answer_act(decision, frame)
    decision.change(changes.ScriptEnded())
    if frame.kind == "leaving":
        enter(decision, frame.to)
    elif frame.kind == "assert" and frame.state == decision.state.entering:
        entered(decision)


def answer_act(decision: InstanceDecision, frame: ScriptFrame, why: str = "") -> None:
    """Tell the server whether an event's action is done or failed, and whether it keeps the carried
    object.
    """
    state = decision.state
    routes = tuple(route for route in state.routes if route.object == frame.carried and frame.carried)
    is_kept = frame.adopted or bool(routes and not why)
    if routes:
        if frame.case and not why:
            tell_routes(decision, frame.case, routes, frame.carried)
        decision.change(changes.RoutesSent(frame.carried))
    value: dict[str, Plain] = {"result": "failed" if why else "done", "why": why, "kept": is_kept}
    decision.ask(commands.Answer(frame.signal, value))


def tell_routes(
    decision: InstanceDecision, case: int, routes: tuple[Route, ...], eid: int, purpose: str = ""
) -> None:
    """Tell a case where an object goes."""
    sent = routed(decision, routes, eid)
    rows: Any = sent["routes"]
    along = dict.fromkeys((eid, *(row["object"] for row in rows)))
    decision.tell("routed", {"object": eid, **sent}, tuple(along), run=case, purpose=purpose)


def routed(decision: InstanceDecision, routes: tuple[Route, ...], eid: int) -> dict[str, Plain]:
    """An object's routes and the parts made from it, in the form that its case expects.

    Each object goes to one type; if there are several, copies go (KA17).
    """
    pieces = decision.state.pieces if eid == decision.state.object else ()
    parts: dict[int, list[int]] = {eid: [*pieces]} if pieces else {}
    by_object: dict[int, list[str]] = {}
    for route in routes:
        by_object.setdefault(pieces[route.part - 1] if route.part else eid, []).append(route.to)
    rows: list[Plain] = []
    for one, types in by_object.items():
        copies = (one,) if len(types) == 1 else scripts.copies(decision, one, len(types))
        if len(types) > 1:
            parts.setdefault(one, []).extend(copies)
        rows += [{"type": to, "object": copy} for to, copy in zip(types, copies, strict=True)]
    return {"routes": rows, "parts": {str(whole): list(of) for whole, of in parts.items()}}


def walk(decision: InstanceDecision, goal: str) -> None:
    """Walk to a state by the shortest path (K49), once no script is under way. Raises ScriptFault if there is
    no path.
    """
    way = decision.definition.way_to(decision.state.state, goal)
    if way is None:
        raise ScriptFault("no-way", f"no edges lead from {decision.state.state} to {goal}")
    if decision.state.goal != goal:
        decision.change(changes.GoalSet(goal))
    if not decision.state.frames:
        move(decision, way[0])


# --- the end ------------------------------------------------------------------------------------------

_UNDER_WAY = ("code", "script", "raise", "ended", "routed", "launch")


def begin_end(
    decision: InstanceDecision,
    outcome: str,
    why: str = "",
    *,
    error: int | None = None,
    gives_back: bool | None = None,
) -> None:
    """End in a status once nothing is under way. If `gives_back` is given, what is under way is given up; if
    it is true, an unfinished object goes back to its queue.
    """
    state = decision.state
    drop_scripts(decision, why or outcome)
    if gives_back is not None:
        for call, purpose in state.calls.items():
            if purpose == "take":
                decision.command(commands.CancelCall(call))
        give_up(decision, *_UNDER_WAY)
    is_here = bool(state.object) and state.stage in ("busy", "entering", "entered", "routes")
    if gives_back is not None and is_here:
        roll_back(decision)
    is_there = is_here and not state.compensates
    for signal, kept_signal in tuple(state.line.items()):
        decision.change(changes.SignalLeft(signal))
        if kept_signal.name == "act":
            decision.ask(commands.Answer(signal, {"state": False}))
        else:
            decision.turn_down(signal, "over", f"instance {state.eid} ends: {outcome}")
    decision.answer_asker()
    decision.change(
        changes.EndingBegan(decision.event.at, outcome, why, bool(gives_back) and is_there, error)
    )


def end(decision: InstanceDecision) -> bool:
    """Take the last steps of the end; False while something is under way."""
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
    eids: tuple[int, ...] = ()
    if state.object and not state.gives_back:
        eids = (state.object, *state.produced)
    elif state.given and not state.object:
        eids = (state.given,)  # it was given away, so the server must not take it back
    failed = state.PHASES[outcome] == "failed" and error is not None
    decision.report_end((error,) if failed and error is not None else eids)
    return True


def _leave(decision: InstanceDecision) -> None:
    """Tell the server that the instance has stopped, and give the object back as it was."""
    state = decision.state
    eid = state.object if state.gives_back else 0
    if eid or state.joined:
        arguments: dict[str, Plain] = {"instance": state.eid, "object": eid, "front": bool(eid)}
        decision.tell("down", arguments, (eid,) if eid else (), purpose="down")
    decision.change(changes.ServerLeft(eid))


def roll_back(decision: InstanceDecision) -> None:
    """Restore the object as it was last committed, with a new version if it was replaced since."""
    state, view = decision.state, decision.view
    committed, current = view.element(state.given), view.current(state.object)
    if not state.object or committed is None:
        return
    now = view.element(current) if current is not None else None
    if now is not None and now.xml == committed.xml:
        eid = now.eid
    else:
        inputs, replaces = (current or state.object,), (current,) if current is not None else ()
        eid = decision.add(Element(0, committed.xml), decision.part, inputs=inputs, replaces=replaces)
        if current is not None:
            decision.command(commands.Outdate((current,)))
    if eid != state.object:
        decision.change(changes.ObjectReplaced(state.object, eid))


def script_failed(decision: InstanceDecision, fault: ScriptFault) -> None:
    """Continue after a failed script: an action fails only its event, any other script leads to EXCEPTION."""
    frames = decision.state.frames
    if frames and frames[-1].kind == "action" and not decision.definition.is_global:
        _action_failed(decision, fault)
    else:
        fail(decision, fault)


def try_again(decision: InstanceDecision, fault: ScriptFault) -> bool:
    """Retry the failed call of an action later, if its rule has retries left; False if not."""
    frame = decision.state.frames[-1]
    rule = decision.rule(frame)
    if rule is None or fault.final or frame.tries >= rule.retries:
        return False
    *outer, place = frame.position
    wake, until = (
        decision.identifier(),
        decision.event.at + retry_wait(None, frame.tries + 1, decision.event.id),
    )
    decision.change(changes.ScriptRested((*outer, place - 1), wake, until, fault.message))
    decision.command(commands.SetTimer(wake, until))
    return True


def _action_failed(decision: InstanceDecision, fault: ScriptFault) -> None:
    """End an action as failed, with an error element; the instance continues in its state."""
    frame = decision.state.frames[-1]
    _add_error(decision, fault)
    decision.free(frame.reserved, well=False)
    answer_act(decision, frame, fault.message)
    decision.change(changes.ScriptEnded())


def _add_error(decision: InstanceDecision, fault: ScriptFault) -> int:
    eid = decision.state.object
    where: dict[str, str | int | None] = {"object": eid or None}
    made_of = decision.made_of()
    return decision.add_error_element(fault.kind, fault.message, decision.part, inputs=made_of, where=where)


def fail(decision: InstanceDecision, fault: ScriptFault) -> None:
    """Go to EXCEPTION (KA29). Failures there, or once the case knows of the end, are ignored."""
    state, message = decision.state, fault.message
    if state.outcome:
        return
    error = _add_error(decision, fault)
    if decision.definition.is_global:
        begin_end(decision, "failed", message, error=error)
    elif state.stage in ("told", "after") or state.state == EXCEPTION:
        drop_scripts(decision, message)
    elif state.entering == EXCEPTION:
        drop_scripts(decision, message)
        entered(decision)
    else:
        enter(decision, EXCEPTION, message, error)

"""Moves from state to state (K25–K27, K49): LEAVE of the old, the state recorded, ASSERT of the new."""

from __future__ import annotations

from typing import Any

from narval.core.engines import commands
from narval.core.engines.events import Plain
from narval.kinds.task.engine import changes, functions
from narval.kinds.task.engine.decision import InstanceDecision
from narval.kinds.task.engine.state import Route, ScriptFrame
from narval.kinds.task.engine.values import ScriptFault

MOST_MOVES = 1000
"""So many states may be entered in one advance: a script that asserts in a circle is stopped."""


MOST_SCRIPTS = 100
"""So many scripts may wait for one another, in each of which another state was asserted."""


def move(decision: InstanceDecision, target: str) -> None:
    """Leave the state for another, along an edge. Raises ScriptFault where there is none."""
    state = decision.state.state
    found = decision.definition.states.get(state)
    edges = set(found.edges.values()) if found is not None else set()
    target = decision.named(target)
    if target not in edges:
        there = ", ".join(sorted(edges)) or "none"
        raise ScriptFault("no-edge", f"no edge leads from {state} to {target}; those that do lead to {there}")
    decision.moves += 1
    if decision.moves > MOST_MOVES or len(decision.state.frames) > MOST_SCRIPTS:
        raise ScriptFault("endless", "scripts assert states again and again, and there is no end of it")
    if found is not None and found.on_leaving:
        decision.change(changes.ScriptBegan(ScriptFrame("leaving", state, target)))
    else:
        enter(decision, target)


def enter(decision: InstanceDecision, target: str, why: str = "", error: int | None = None) -> None:
    """Be in a state from now on; the server is told if it has rules, or the one before had."""
    definition, state = decision.definition, decision.state
    is_terminal, before = definition.is_terminal(target), state.state
    if is_terminal or why:
        drop_scripts(decision, why)
    found = definition.states.get(target)
    exposed = found is None or found.exposed
    decision.change(
        changes.StateEntered(decision.event.at, target, state.object, is_terminal, exposed, why, error)
    )
    if decision.has_rules(target) or decision.has_rules(before):
        decision.tell_state()
    if is_terminal and not state.asker:  # code that asserts by itself comes to its own end
        give_up(decision, "code")
    if found is not None and found.on_assert:
        decision.change(changes.ScriptBegan(ScriptFrame("assert", target)))


def adopt(decision: InstanceDecision, eid: int, case: int, event: int) -> None:
    """Work on an object that an event brought, as there is no other: the event carries it no more (K59)."""
    decision.change(changes.ObjectAdopted(eid, case))
    decision.tell_state(adopts=event)
    functions.tell_moved(decision, case, eid)


def give_up(decision: InstanceDecision, *purposes: str) -> None:
    """Give up the calls of a purpose; that they are gone is waited for."""
    for call, purpose in tuple(decision.state.calls.items()):
        if purpose in purposes:
            decision.command(commands.CancelCall(call))
            if purpose == "code":
                decision.free(decision.state.reserved, well=False)
            decision.change(changes.CallDropped(call))


def drop_scripts(decision: InstanceDecision, why: str = "") -> None:
    """Let the scripts under way go no further; actions that were are done, or failed for a reason."""
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
    """Go on after a script: what was left is left for good, and an action is answered."""
    frame = decision.state.frames[-1]
    if frame.signal:
        answer_act(decision, frame)
    decision.change(changes.ScriptEnded())
    if frame.kind == "leaving":
        enter(decision, frame.to)


def answer_act(decision: InstanceDecision, frame: ScriptFrame, why: str = "") -> None:
    """Answer the server: the action of its event is done, or failed; what was carried may be kept."""
    state = decision.state
    routes = tuple(route for route in state.routes if route.object == frame.carried and frame.carried)
    kept = frame.adopted or bool(routes and not why)
    if routes:
        if frame.case and not why:
            tell_routes(decision, frame.case, routes, frame.carried)
        decision.change(changes.RoutesSent(frame.carried))
    value: dict[str, Plain] = {"result": "failed" if why else "done", "why": why, "kept": kept}
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
    """Routes of an object, and the parts that were made of it, as they are told its case.

    Each object goes to one type: for those that go to several, copies do (KA17).
    """
    pieces = decision.state.pieces if eid == decision.state.object else ()
    parts: dict[int, list[int]] = {eid: [*pieces]} if pieces else {}
    by_object: dict[int, list[str]] = {}
    for route in routes:
        by_object.setdefault(pieces[route.part - 1] if route.part else eid, []).append(route.to)
    rows: list[Plain] = []
    for one, types in by_object.items():
        copies = (one,) if len(types) == 1 else functions.copies(decision, one, len(types))
        if len(types) > 1:
            parts.setdefault(one, []).extend(copies)
        rows += [{"type": to, "object": copy} for to, copy in zip(types, copies, strict=True)]
    return {"routes": rows, "parts": {str(whole): list(of) for whole, of in parts.items()}}


def walk(decision: InstanceDecision, goal: str) -> None:
    """Walk to a state on the shortest way (K49), once no script is under way. Raises ScriptFault where there
    is none.
    """
    way = decision.definition.way_to(decision.state.state, goal)
    if way is None:
        raise ScriptFault("no-way", f"no edges lead from {decision.state.state} to {goal}")
    if decision.state.goal != goal:
        decision.change(changes.GoalSet(goal))
    if not decision.state.frames:
        move(decision, way[0])

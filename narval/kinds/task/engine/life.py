"""The life of an instance: it takes an object, has the work done, and hands on the result (K58)."""

from __future__ import annotations

from narval.core.engines import commands
from narval.core.engines.events import Failure, Plain, Returned
from narval.core.kinds import ASKING
from narval.kinds.task.engine import changes, moves, scripts
from narval.kinds.task.engine.decision import InstanceDecision
from narval.kinds.task.engine.signals import hear, number_in
from narval.kinds.task.engine.state import ScriptFrame
from narval.kinds.task.engine.values import ScriptFault
from narval.kinds.task.language.definition import ABORT, COMMIT, EXCEPTION, FORWARD, outcome_of

# --- what comes next ------------------------------------------------------------------------------------


def settle(decision: InstanceDecision) -> None:
    """Continue until there is nothing to do but wait."""
    while not decision.state.over:
        try:
            if not _step(decision):
                return
        except ScriptFault as fault:
            moves.script_failed(decision, fault)


def _step(decision: InstanceDecision) -> bool:
    """Do the next step; False if the instance can only wait. Raises ScriptFault."""
    state = decision.state
    if state.outcome:
        return moves.end(decision)
    if state.frames:
        if state.frames[-1].waits:
            return False
        if scripts.run(decision, moves.move):
            moves.script_over(decision)
        return True
    match state.stage:
        case "busy" if state.goal and state.goal != state.state:
            moves.walk(decision, state.goal)
            return True
        case "entered":
            _after_entry(decision)
            return True
        case "routes":
            _tell_end(decision)
            return True
        case "after":
            _send_routes(decision)
            _conclude(decision)
            return True
        case "told":
            return False
    if decision.definition.is_global:
        moves.begin_end(decision, "done")
        return True
    decision.answer_asker()
    if state.line:
        hear(decision)
        return True
    return state.stage == "busy" and not state.code and _begin_code(decision)


# --- objects --------------------------------------------------------------------------------------------


def take(decision: InstanceDecision) -> None:
    """Ask the server for the next object."""
    decision.tell("take", {"instance": decision.state.eid}, purpose="take")


def given(decision: InstanceDecision, event: Returned, signal: str = "") -> None:
    """Begin with the object that the server gave, or end if it has none (K45); answer a program."""
    value, problem, state = event.value or {}, event.problem, decision.state
    eid, case = number_in(value, "object"), number_in(value, "case")
    if state.outcome:
        if eid:
            decision.change(changes.ObjectTaken(event.at, eid, case, back=True))
        if signal:
            decision.turn_down(signal, "over", f"instance {state.eid} ends: {state.outcome}")
    elif event.abandoned:
        return
    elif signal:
        if eid:
            decision.change(changes.AskerSet(signal))
            begin(decision, eid, case)
        else:
            decision.ask(commands.Answer(signal, {"object": 0}, problem))
    elif problem is not None:
        error = decision.add_error_element(problem.kind, problem.message, decision.part)
        moves.begin_end(decision, "failed", problem.message, error=error)
    elif eid:
        begin(decision, eid, case)
    else:
        moves.begin_end(decision, "done")


def begin(decision: InstanceDecision, eid: int, case: int, exception: str = "") -> None:
    """Begin with an object, or with none: assert the initial state, or EXCEPTION for this reason, if its case
    asks where an object goes that cannot go on.
    """
    decision.change(changes.ObjectTaken(decision.event.at, eid, case))
    if eid and eid not in decision.state.first:
        decision.add_to_context((eid,))
    moves.enter(decision, EXCEPTION if exception else decision.definition.initial, exception)


# --- the work -------------------------------------------------------------------------------------------


def _begin_code(decision: InstanceDecision) -> bool:
    """Call the code of the task, or ask a person; False if the task has neither. Raises ScriptFault."""
    definition, state = decision.definition, decision.state
    if state.program:
        return False
    near = tuple(eids for eids in ((state.object,) * bool(state.object), state.first) if eids)
    call = decision.identifier()
    if definition.code is not None:
        worked_by = definition.worked_by(decision.view.definition)
        if worked_by is None:
            why = f"TASK CODE names {definition.code[1]}, and no such definition is loaded"
            raise ScriptFault("unknown-target", why)
        kind, name = worked_by.kind, definition.code[1]
        if kind in scripts.WITH_PROTOTYPE:
            reserved = decision.call_action(call, kind, name, near)
            decision.change(changes.CodeBegan(call, reserved))
            return True
        decision.change(changes.CodeBegan(call, asks=kind == ASKING))
        decision.call(call, kind, name, near)
    elif definition.program:
        decision.change(changes.CodeBegan(call))
        decision.call_program(
            call, definition.program, scripts.environment(decision.view, {}, state.object), state.object
        )
    elif definition.is_interactive:
        decision.change(changes.CodeBegan(call, asks=True))
        decision.call(call, ASKING, definition.full_name, near)
    else:
        return False
    return True


def code_back(decision: InstanceDecision, event: Returned, reserved: tuple[int, ...]) -> None:
    """Walk to the end after the code, or to the state that a person chose. Raises ScriptFault."""
    definition, asked = decision.definition, decision.view.pending_call(event.call)
    target = (asked.kind, asked.name) if asked is not None else (ASKING, definition.full_name)
    eids = scripts.keep(decision, event, target, reserved)
    decision.change(changes.CodeOver(event.at, eids))
    if target[0] == ASKING:
        answers = [decision.view.element(eid) for eid in event.eids]
        outcome = next((answer.attributes.get("outcome", "") for answer in answers if answer is not None), "")
        ends = (name for name in definition.states if definition.is_terminal(name))
        state = next((name for name in ends if outcome_of(name) == outcome), "")
        if not state:
            ways = " or ".join(definition.ways_from(decision.state.state).ends)
            raise ScriptFault("no-way", f"the answer {outcome!r:.80} is no state; it ends in {ways}")
        moves.walk(decision, state)
    else:
        moves.walk(decision, _end_of_work(decision))


def _end_of_work(decision: InstanceDecision) -> str:
    """The terminal state to walk to: FORWARD, else the only reachable one. Raises ScriptFault."""
    definition, state = decision.definition, decision.state.state
    terminal = [name for name in definition.states if definition.is_terminal(name)]
    ways = [name for name in terminal if definition.way_to(state, name) is not None]
    if FORWARD in ways or len(ways) == 1:
        return FORWARD if FORWARD in ways else ways[0]
    there = (
        f"{len(ways)} terminal states can be reached: {', '.join(ways)}"
        if ways
        else "no terminal state can be"
    )
    raise ScriptFault(
        "no-way", f"the code ended in {state}, from where {there}; assert one of them, or draw an edge"
    )


# --- after a terminal state -----------------------------------------------------------------------------


def _after_entry(decision: InstanceDecision) -> None:
    """Run the routing script, if there is an object; after ABORT only once the chain has ended.

    ABORT and EXCEPTION restore the object as it was last committed.
    """
    if decision.state.state in (ABORT, EXCEPTION):
        moves.roll_back(decision)
    decision.change(changes.StageReached("routes"))
    if decision.state.object and decision.state.state != ABORT:
        decision.change(changes.ScriptBegan(ScriptFrame("routes", decision.state.state)))


def _tell_end(decision: InstanceDecision) -> None:
    """Tell the case of the end; a compensator, or an instance without a case, tells its caller. Raises
    ScriptFault.
    """
    state, definition = decision.state, decision.definition
    if not state.object or not state.case or state.compensates:
        _conclude(decision)
        return
    if state.state not in (COMMIT, ABORT, EXCEPTION) and not state.routes:
        why = f"the script of {state.state} routed the object nowhere; let each way through it route it"
        raise ScriptFault("no-route", why)
    sent: dict[str, Plain] = {}
    if state.state in (ABORT, COMMIT):
        decision.change(changes.RoutesSent(0))  # routes that scripts chose on the way are dropped
    else:
        sent = moves.routed(decision, state.routes, state.object)
    decision.change(changes.StageReached("told"))
    said: dict[str, Plain] = {
        "type": definition.full_name,
        "instance": state.eid,
        "object": state.object,
        "was": state.given,
        "result": state.state,
        "outputs": [*state.produced],
        "why": state.why,
        **sent,
    }
    decision.tell("ended", said, (state.object, *state.produced), run=state.case, purpose="ended")


_MISDIRECTED = frozenset({"unknown-object", "routed-twice", "known-object"})
"""The kinds of problems for which a case refuses routes."""


def told(decision: InstanceDecision, problem: Failure | None = None) -> None:
    """Continue once the case has recorded the end: ON ABORT runs after the chain. An object that cannot go
    where it was routed becomes an exception. Raises ScriptFault.
    """
    if problem is not None and problem.kind in _MISDIRECTED and decision.state.state != EXCEPTION:
        decision.change(changes.StageReached("routes"))
        raise ScriptFault(problem.kind, problem.message)
    if decision.state.state == ABORT:
        decision.change(changes.StageReached("after"))
        object = decision.state.object
        now = decision.view.current(object)
        if now is not None and now != object:  # what the last compensator has left
            decision.change(changes.ObjectReplaced(object, now))
        decision.change(changes.ScriptBegan(ScriptFrame("routes", ABORT)))
    else:
        _conclude(decision)


def _send_routes(decision: InstanceDecision) -> None:
    """Tell the case where the object goes; after ABORT the case waits for this, even if the object goes
    nowhere. It already knows of an object that an event carries.
    """
    state = decision.state
    if state.case and state.object and (state.routes or ABORT in decision.definition.routes):
        moves.tell_routes(decision, state.case, state.routes, state.object, "routed")
        decision.change(changes.RoutesSent(0))


_OUTCOMES = {ABORT: "aborted", EXCEPTION: "failed"}


def _conclude(decision: InstanceDecision) -> None:
    """End the instance; a program's instance gets ready for the next object instead."""
    state = decision.state
    if state.program:
        decision.answer_asker()
        decision.change(changes.ObjectDone(decision.event.at))
    else:
        moves.begin_end(decision, _OUTCOMES.get(state.state, "done"))

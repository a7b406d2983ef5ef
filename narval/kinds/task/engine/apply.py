"""Facts of an instance as they alter its state."""

from __future__ import annotations

from typing import Any, cast

from msgspec.structs import replace

from narval.core.engines.run_state import apply_table
from narval.kinds.task.engine.changes import (
    AskerSet,
    CallAsked,
    CallBack,
    CallDropped,
    CodeBegan,
    CodeOver,
    EndingBegan,
    GoalSet,
    InstanceBegan,
    InstanceOver,
    LeaseOver,
    LeaseRenewed,
    ObjectAdopted,
    ObjectDone,
    ObjectReplaced,
    ObjectTaken,
    OutputKept,
    PiecesMade,
    RouteChosen,
    RoutesSent,
    ScriptAt,
    ScriptBegan,
    ScriptEnded,
    ScriptRested,
    ScriptsDropped,
    ServerLeft,
    SignalKept,
    SignalLeft,
    StageReached,
    StateEntered,
    TaskChange,
)
from narval.kinds.task.engine.state import GONE, InstanceState, KeptSignal, Route, ScriptFrame, Stage


def _began(state: InstanceState, change: InstanceBegan) -> None:
    state.begin(change)
    state.move("active")
    state.user, state.role, state.handle = change.user, change.role, change.handle
    state.program, state.joined, state.compensates = change.program, change.joined, change.compensates
    state.lease = change.lease


def _renewed(state: InstanceState, change: LeaseRenewed) -> None:
    state.lease_until = change.until
    state.wake = change.wake or state.wake


def _lease_over(state: InstanceState, change: LeaseOver) -> None:
    state.wake, state.lease_until = "", None


def _call_made(state: InstanceState, change: CallAsked) -> None:
    state.calls[change.call] = change.purpose
    if change.signal:
        state.answered[change.call] = change.signal


def _call_back(state: InstanceState, change: CallBack) -> None:
    if state.calls.pop(change.call, None) == "code":
        state.reserved = ()
    state.answered.pop(change.call, None)


def _taken(state: InstanceState, change: ObjectTaken) -> None:
    state.object = state.given = change.object
    state.case, state.passed = change.case, state.passed + 1
    state.code = ""
    _forget_results(state)
    state.gives_back = state.gives_back or change.back


def _adopted(state: InstanceState, change: ObjectAdopted) -> None:
    state.object = state.given = change.object
    state.case = change.case


def _forget_results(state: InstanceState) -> None:
    state.routes, state.pieces, state.produced = (), (), ()
    state.why, state.error = "", None


def _entered(state: InstanceState, change: StateEntered) -> None:
    state.state, state.since = change.state, change.at
    state.stage = "entered" if change.terminal else "busy"
    if change.exposed:
        state.exposed = change.state
    if change.terminal or change.state == state.goal:
        state.goal = ""
    if change.why:
        state.why, state.routes, state.pieces = change.why, (), ()
    if change.error is not None:
        state.error = change.error


def _reached(state: InstanceState, change: StageReached) -> None:
    state.stage = cast("Stage", change.stage)


def _script_began(state: InstanceState, change: ScriptBegan) -> None:
    state.frames = (*state.frames, change.frame)


def _alter_script(state: InstanceState, **values: Any) -> None:
    *below, frame = state.frames
    altered: ScriptFrame = replace(frame, **values)
    state.frames = (*below, altered)


def _script_at(state: InstanceState, change: ScriptAt) -> None:
    _alter_script(state, position=change.position, call=change.call, reserved=change.reserved, wake="")


def _script_rested(state: InstanceState, change: ScriptRested) -> None:
    tries = state.frames[-1].tries + 1
    _alter_script(state, position=change.position, call="", reserved=(), tries=tries, wake=change.wake)


def _script_ended(state: InstanceState, change: ScriptEnded) -> None:
    state.frames = state.frames[:-1]


def _dropped(state: InstanceState, change: ScriptsDropped) -> None:
    state.frames = ()
    if change.why:
        state.why, state.routes = change.why, ()


def _call_dropped(state: InstanceState, change: CallDropped) -> None:
    if state.calls[change.call] == "code":
        state.reserved = ()
    state.calls[change.call] = GONE


def _code_began(state: InstanceState, change: CodeBegan) -> None:
    state.code, state.reserved = "called", change.reserved
    state.calls[change.call] = "code"


def _code_over(state: InstanceState, change: CodeOver) -> None:
    state.code, state.reserved = "done", ()
    state.produced += change.produced


def _goal_set(state: InstanceState, change: GoalSet) -> None:
    state.goal = change.goal


def _replaced(state: InstanceState, change: ObjectReplaced) -> None:
    if state.object == change.was:
        state.object = change.object
    state.frames = tuple(
        replace(frame, carried=change.object) if change.was and frame.carried == change.was else frame
        for frame in state.frames
    )


def _output_kept(state: InstanceState, change: OutputKept) -> None:
    state.produced += change.produced


def _route_chosen(state: InstanceState, change: RouteChosen) -> None:
    route = Route(change.to, change.object, change.part)
    if route not in state.routes:
        state.routes = (*state.routes, route)


def _routes_sent(state: InstanceState, change: RoutesSent) -> None:
    state.routes = tuple(route for route in state.routes if route.object != change.object)


def _pieces_made(state: InstanceState, change: PiecesMade) -> None:
    state.pieces += change.eids


def _signal_kept(state: InstanceState, change: SignalKept) -> None:
    state.line[change.signal] = KeptSignal(change.name, change.arguments)


def _signal_left(state: InstanceState, change: SignalLeft) -> None:
    state.line.pop(change.signal, None)
    if state.asker == change.signal:
        state.asker = ""
    state.answered = {call: signal for call, signal in state.answered.items() if signal != change.signal}


def _asker_set(state: InstanceState, change: AskerSet) -> None:
    state.asker = change.signal


def _object_done(state: InstanceState, change: ObjectDone) -> None:
    state.stage, state.state, state.exposed, state.since = "", "", "", change.at
    state.object = state.given = state.case = 0
    state.code = ""
    _forget_results(state)


def _ending(state: InstanceState, change: EndingBegan) -> None:
    state.move("ending")
    state.outcome, state.gives_back = change.outcome, change.gives_back
    state.why = change.why or state.why
    state.frames, state.goal = (), ""
    if change.error is not None:
        state.error = change.error


def _server_left(state: InstanceState, change: ServerLeft) -> None:
    state.left, state.object = True, change.object or state.object


def _over(state: InstanceState, change: InstanceOver) -> None:
    state.frames, state.calls, state.line = (), {}, {}
    state.move(change.status, change.at, change.error)


APPLY = apply_table(globals())


def apply(state: InstanceState, change: TaskChange) -> None:
    """Alter the state as the change says."""
    APPLY[type(change)](state, change)

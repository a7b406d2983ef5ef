"""Facts of a standing run as they alter its state."""

from __future__ import annotations

from msgspec.structs import replace

from narval.core.engines.run_state import apply_table
from narval.kinds.task.engine.server import apply_events
from narval.kinds.task.engine.server.apply_events import hold, put_instance
from narval.kinds.task.engine.server.changes import (
    CalledOver,
    Enqueued,
    InstanceAt,
    InstanceCalled,
    InstanceJoined,
    InstanceLeft,
    ObjectGiven,
    ObjectGone,
    ObjectSent,
    PartsMerged,
    SendingOver,
    ServerBegan,
    ServerChange,
    ServerEnded,
    ServerLoaded,
    TakeParked,
    TickSet,
    WithdrawalBegan,
    WithdrawalEnded,
)
from narval.kinds.task.engine.server.state import CalledInstance, KnownInstance, Queued, TaskServerState


def _began(state: TaskServerState, change: ServerBegan) -> None:
    state.begin(change)
    state.move("serving")


def _loaded(state: TaskServerState, change: ServerLoaded) -> None:
    state.gone = not change.version
    state.version = change.version or state.version


def _ended(state: TaskServerState, change: ServerEnded) -> None:
    state.move(change.status, change.at, change.error)


# --- the queue --------------------------------------------------------------------------------------------


def _enqueued(state: TaskServerState, change: Enqueued) -> None:
    _unhand(state, change.object)
    state.objects[change.object] = Queued(change.at, change.case, change.parent, change.ordinal, change.count)
    if change.count:
        state.parts.setdefault(change.parent, {})[change.ordinal] = change.object
    elif change.front:
        state.queue.prepend(change.object)
    else:
        state.queue.append(change.object)


def _unhand(state: TaskServerState, eid: int) -> None:
    """Take an object from the instance that had it."""
    holder = state.given.pop(eid, "")
    if holder in state.called:
        state.called[holder] = called = replace(state.called[holder], object=0)
        _let_go(state, called.instance)
    elif holder:
        _let_go(state, int(holder))


def _let_go(state: TaskServerState, instance: int) -> None:
    """Let an instance be without an object."""
    entry = state.at_work.get(instance)
    if entry is not None and entry.object:
        if state.given.get(entry.object) == str(instance):
            del state.given[entry.object]
        put_instance(state, instance, replace(entry, object=0, case=0))


def _taken_out(state: TaskServerState, eid: int) -> Queued | None:
    """Take an object out of the queue, or from among the parts that wait."""
    queued = state.objects.pop(eid, None)
    state.queue.discard(eid)
    if queued is not None and queued.count and (parts := state.parts.get(queued.parent)) is not None:
        parts.pop(queued.ordinal, None)
        if not parts:
            del state.parts[queued.parent]
    return queued


def _take_parked(state: TaskServerState, change: TakeParked) -> None:
    _let_go(state, change.instance)
    state.takers[change.instance] = change.signal
    entry = replace(state.at_work[change.instance], state="", take=change.signal, took="")
    put_instance(state, change.instance, entry)


def _object_given(state: TaskServerState, change: ObjectGiven) -> None:
    took = state.takers.pop(change.instance, "")
    queued = _taken_out(state, change.object) if change.object else None
    case = queued.case if queued is not None else 0
    given = {"object": change.object, "case": case, "take": "", "took": took}
    entry = replace(state.at_work[change.instance], state="", **given)
    put_instance(state, change.instance, entry)
    if change.object:
        state.given[change.object] = str(change.instance)


def _object_gone(state: TaskServerState, change: ObjectGone) -> None:
    _unhand(state, change.object)
    _taken_out(state, change.object)


def _parts_merged(state: TaskServerState, change: PartsMerged) -> None:
    queued = [_taken_out(state, part) for part in change.parts]
    first = queued[0]
    case = first.case if first is not None else 0
    since = min(part.at for part in queued if part is not None)
    state.objects[change.element] = Queued(since, case)
    state.queue.append(change.element)


def _sent(state: TaskServerState, change: ObjectSent) -> None:
    state.sent[change.call] = (change.object, change.case)


def _sending_over(state: TaskServerState, change: SendingOver) -> None:
    del state.sent[change.call]


def _withdrawal_began(state: TaskServerState, change: WithdrawalBegan) -> None:
    state.withdrawing[change.call] = (change.signal, change.object)


def _withdrawal_ended(state: TaskServerState, change: WithdrawalEnded) -> None:
    _, eid = state.withdrawing.pop(change.call)
    _unhand(state, eid)


# --- who works --------------------------------------------------------------------------------------------


def _joined(state: TaskServerState, change: InstanceJoined) -> None:
    entry = KnownInstance(change.at, user=change.user, role=change.role, program=change.program)
    put_instance(state, change.instance, entry)


def _instance_at(state: TaskServerState, change: InstanceAt) -> None:
    entry = state.at_work.get(change.instance, KnownInstance(change.at, change.call))
    if change.call in state.called:
        state.called[change.call] = replace(state.called[change.call], instance=change.instance)
    hold(state, change.instance, replace(entry, state=change.state), change.object, change.case)


def _left(state: TaskServerState, change: InstanceLeft) -> None:
    _forget_instance(state, change.instance)


def _forget_instance(state: TaskServerState, instance: int) -> None:
    _let_go(state, instance)
    state.takers.pop(instance, None)
    put_instance(state, instance, None)


def _called(state: TaskServerState, change: InstanceCalled) -> None:
    _taken_out(state, change.object)
    state.called[change.call] = CalledInstance(change.at, change.object, change.case, change.event)
    if change.event:
        state.events[change.event].started = True
        state.unserved.discard(change.event)
    if change.object:
        state.given[change.object] = change.call


def _over(state: TaskServerState, change: CalledOver) -> None:
    called = state.called.pop(change.call)
    if state.given.get(called.object) == change.call:
        del state.given[called.object]
    if called.instance:
        _forget_instance(state, called.instance)


def _tick_set(state: TaskServerState, change: TickSet) -> None:
    state.due, state.missed = change.due, change.missed


APPLY = apply_table(globals(), vars(apply_events))


def apply(state: TaskServerState, change: ServerChange) -> None:
    """Alter the state as the change says."""
    APPLY[type(change)](state, change)

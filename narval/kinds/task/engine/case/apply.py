"""Facts of a case as they alter its state."""

from __future__ import annotations

from narval.core.engines.run_state import apply_table
from narval.kinds.task.engine.case.changes import (
    AbortAsked,
    CaseBegan,
    CaseChange,
    CaseOver,
    ChainBlocked,
    ChainEnded,
    ChainGivenUp,
    ChainResumed,
    LinkBegan,
    LinkDone,
    LinkSkipped,
    ObjectDivided,
    ObjectEnded,
    ObjectHeld,
    ObjectLeft,
    ObjectMerged,
    ObjectMoved,
    ObjectPut,
    RoutesKept,
    VersionTold,
    WaiterGone,
    WithdrawalAsked,
)
from narval.kinds.task.engine.case.state import TO_COMPENSATE, UNDER_WAY, CaseState, Member, TrailStep


def _began(state: CaseState, change: CaseBegan) -> None:
    state.begin(change)
    state.move("active")
    for eid in change.elements:
        state.members[eid] = Member(eid, since=change.at)
        state.objects[eid] = eid
        state.open += 1


def _place(state: CaseState, identity: int, to: str, at: float) -> Member:
    """Let an object be elsewhere, and keep the counts."""
    member = state.members[identity]
    before = member.state
    state.open += (to in UNDER_WAY) - (before in UNDER_WAY)
    state.withdrawing += (to == "withdrawing") - (before == "withdrawing")
    state.held += (to == "held") - (before == "held")
    if member.composes:
        state.members[member.parent].composing -= 1
    member.state, member.since, member.composes = to, at, False
    if state.status in ("active", "held"):
        status = "held" if state.held else "active"
        if status != state.status:
            state.move(status)
    return member


def _goes_to(state: CaseState, identity: int, to: str, at: float, type: str) -> Member:
    member = _place(state, identity, to, at)
    member.type, member.instance, member.event, member.why, member.error = type, 0, "", "", 0
    member.routes, member.divisions = None, ()
    return member


def _count_visit(member: Member, type: str) -> None:
    member.visits[type] = member.visits.get(type, 0) + 1


def _put(state: CaseState, change: ObjectPut) -> None:
    member = _goes_to(state, change.object, "task", change.at, change.at_type)
    _count_visit(member, change.at_type)
    if change.composes:
        member.composes = True
        state.members[member.parent].composing += 1


def _moved(state: CaseState, change: ObjectMoved) -> None:
    elsewhere = change.at_type != state.members[change.object].type
    to = "event" if change.event else "task"
    member = _goes_to(state, change.object, to, change.at, change.at_type)
    member.event = change.event
    if elsewhere:
        _count_visit(member, change.at_type)


def _version_told(state: CaseState, change: VersionTold) -> None:
    _is_now(state, change.object, change.now)


def _is_now(state: CaseState, identity: int, now: int) -> None:
    member = state.members[identity]
    if now != member.now:
        state.objects.pop(member.now, None)
        member.now = now
    state.objects[now] = identity


def _left(state: CaseState, change: ObjectLeft) -> None:
    _is_now(state, change.object, change.now)
    member = state.members[change.object]
    member.instance, member.type, member.why = change.instance, change.at_type, change.why
    if change.kept:
        member.steps.append(len(state.trail))
        state.chain.append(len(state.trail))
        state.trail.append(
            TrailStep(
                change.object,
                change.at_type,
                change.instance,
                change.result,
                change.at,
                change.now,
                change.outputs,
                change.compensator,
            )
        )


def _divided(state: CaseState, change: ObjectDivided) -> None:
    whole = _place(state, change.object, "parts", change.at)
    whole.parts, whole.open, whole.missing = (*whole.parts, *change.parts), len(change.parts), 0
    for ordinal, eid in enumerate(change.parts, 1):
        state.members[eid] = Member(
            eid, change.object, ordinal, len(change.parts), type=whole.type, since=change.at
        )
        state.objects[eid] = eid
        state.open += 1


def _merged(state: CaseState, change: ObjectMerged) -> None:
    for part in change.parts:
        _place(state, part, "merged", change.at)
    _is_now(state, change.object, change.now)
    _goes_to(state, change.object, "task", change.at, change.at_type).open = 0


def _held(state: CaseState, change: ObjectHeld) -> None:
    member = _goes_to(state, change.object, "held", change.at, change.at_type)
    member.why, member.error = change.why, change.error
    member.visits.pop(change.at_type, None)


def _ended(state: CaseState, change: ObjectEnded) -> None:
    member = _place(state, change.object, change.end, change.at)
    member.why = change.why
    if change.end == "committed":
        state.committed += 1
        _commit(state, member)
    whole = state.members.get(member.parent)
    if whole is not None and whole.state == "parts":
        whole.open -= 1
        whole.missing = whole.missing or change.object


def _commit(state: CaseState, member: Member) -> None:
    """Let what an object did, and the parts that were merged into it, be for good."""
    line = [member]
    for done in line:
        for number in done.steps:
            if state.trail[number].state == "forwarded":
                state.trail[number].state = "committed"
        line.extend(part for eid in done.parts if (part := state.members[eid]).state == "merged")


# --- compensation -----------------------------------------------------------------------------------------


def _abort_asked(state: CaseState, change: AbortAsked) -> None:
    if not state.is_undoing:
        state.move("aborting")
        state.why, state.committed = change.why, 0
    if change.object:
        member = _place(state, change.object, "aborting", change.at)
        member.signal = change.signal
        state.waiters[change.signal] = change.object
    else:
        state.cancelled, state.cancelled_by = True, change.by
        state.why = state.why or change.why


def _withdrawal_asked(state: CaseState, change: WithdrawalAsked) -> None:
    _place(state, change.object, "withdrawing", change.at)


def _settle_link(state: CaseState, number: int, to: str) -> None:
    state.trail[number].state = to
    state.link = None
    while state.chain and state.trail[state.chain[-1]].state not in TO_COMPENSATE:
        state.chain.pop()


def _skipped(state: CaseState, change: LinkSkipped) -> None:
    _settle_link(state, change.step, "none")


def _link_began(state: CaseState, change: LinkBegan) -> None:
    step = state.trail[change.step]
    step.state, step.call, step.why, step.error = "compensating", change.call, "", 0
    state.link = change.step


def _link_done(state: CaseState, change: LinkDone) -> None:
    state.trail[change.step].call = ""
    _settle_link(state, change.step, "compensated")


def _blocked(state: CaseState, change: ChainBlocked) -> None:
    step = state.trail[change.step]
    step.state, step.call, step.why, step.error = "failed", "", change.why, change.error
    state.waiters = {}
    state.move("blocked")


def _resumed(state: CaseState, change: ChainResumed) -> None:
    state.move("aborting")


def _given_up(state: CaseState, change: ChainGivenUp) -> None:
    state.move("aborting")
    state.chain, state.link = [], None


def _chain_ended(state: CaseState, change: ChainEnded) -> None:
    state.chain, state.waiters = [], {}
    for identity, member in state.members.items():
        if member.state == "aborting":
            _place(state, identity, "leaving", change.at)
    if not state.cancelled:
        state.move("active")


def _routes_kept(state: CaseState, change: RoutesKept) -> None:
    member = state.members[change.object]
    member.routes, member.divisions = change.routes, change.divisions


def _waiter_gone(state: CaseState, change: WaiterGone) -> None:
    member = state.members[state.waiters.pop(change.signal)]
    member.routes = member.routes or ()


def _over(state: CaseState, change: CaseOver) -> None:
    state.move(change.status, change.at, change.error)


APPLY = apply_table(globals())


def apply(state: CaseState, change: CaseChange) -> None:
    """Alter the state as the change says."""
    APPLY[type(change)](state, change)

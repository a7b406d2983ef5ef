"""Facts of a work item as they alter its state (P20, P36)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from narval.core.engines.run_state import apply_table
from narval.kinds.work.engine.changes import (
    Asked,
    Claimed,
    ClaimReleased,
    Delegated,
    DelegationEnded,
    Escalated,
    Expired,
    Fruitless,
    GivenUp,
    ItemAnswered,
    LeaseEnded,
    NoticeAsked,
    NoticeGivenUp,
    NoticePutOff,
    Notified,
    Offered,
    Reassigned,
    Refused,
    Reminded,
    Renewed,
    Saved,
    TokenSpent,
    TokensVoided,
    TurnedAway,
    VoteChanged,
    Voted,
    WakeSet,
    Withdrawn,
    WorkChange,
)
from narval.kinds.work.engine.state import Handed, ItemClaim, Notice, Vote, WorkState


def _asked(state: WorkState, change: Asked) -> None:
    state.begin(change)


def _offered(state: WorkState, change: Offered) -> None:
    state.move("offered")
    state.inputs, state.title, state.shown = change.inputs, change.title, change.shown
    state.people, state.requesters = change.people, change.requesters
    state.deadline, state.priority = change.deadline, change.priority
    state.defaults, state.options = change.defaults, change.options


def _wake_set(state: WorkState, change: WakeSet) -> None:
    state.wake, state.wake_at = change.wake, change.at


def _free(state: WorkState) -> None:
    if state.claim is not None:
        state.claim = None
        state.move("offered")


def _claimed(state: WorkState, change: Claimed) -> None:
    if state.claim is None:
        state.move("claimed")
    state.claim = ItemClaim(change.by, change.at, change.until, change.role, change.instead_of)


def _renewed(state: WorkState, change: Renewed) -> None:
    if state.claim is not None:
        since = state.claim.since
        state.claim = ItemClaim(change.by, since, change.until, change.role, change.instead_of)


def _released(state: WorkState, change: ClaimReleased) -> None:
    _free(state)


def _lease_ended(state: WorkState, change: LeaseEnded) -> None:
    _free(state)


def _saved(state: WorkState, change: Saved) -> None:
    state.drafts[change.by] = change.fields


def _delegated(state: WorkState, change: Delegated) -> None:
    _free(state)
    handed = Handed(change.by, change.to, state.named, state.named_level, change.until)
    state.handed = (*state.handed, handed)
    state.named, state.named_level = (change.to,), state.level


def _delegation_ended(state: WorkState, change: DelegationEnded) -> None:
    _free(state)
    last = state.handed[-1]
    state.handed = state.handed[:-1]
    state.named, state.named_level = last.named, last.level


def _voted(state: WorkState, change: Voted) -> None:
    state.votes[change.by] = Vote(
        change.by, change.outcome, change.at, change.way, change.fields, change.instead_of
    )
    state.drafts.pop(change.by, None)


def _vote_changed(state: WorkState, change: VoteChanged) -> None:
    if not change.outcome:
        state.votes.pop(change.by, None)
        return
    state.votes[change.by] = Vote(
        change.by, change.outcome, change.at, change.way, change.fields, change.instead_of
    )
    state.drafts.pop(change.by, None)


def _answered(state: WorkState, change: ItemAnswered) -> None:
    state.outcome, state.answer = change.outcome, change.answer
    _end(state, "done", change.at, change.by)


def _refused(state: WorkState, change: Refused) -> None:
    _free(state)
    state.refused[change.by] = change.why
    state.drafts.pop(change.by, None)


def _reassigned(state: WorkState, change: Reassigned) -> None:
    _free(state)
    state.named, state.named_level, state.handed = change.to, state.level, ()


def _reminded(state: WorkState, change: Reminded) -> None:
    state.reminded, state.remind_due = change.times, change.due


def _escalated(state: WorkState, change: Escalated) -> None:
    state.level = change.level


def _expired(state: WorkState, change: Expired) -> None:
    _end(state, "expired", change.at, error=change.error)


def _withdrawn(state: WorkState, change: Withdrawn) -> None:
    state.ended_why = change.why
    _end(state, "withdrawn", change.at, change.by, change.error)


def _given_up(state: WorkState, change: GivenUp) -> None:
    _end(state, change.status, change.at, error=change.error)


def _end(state: WorkState, status: str, at: float, by: str = "", error: int | None = None) -> None:
    state.claim, state.ended_by = None, by
    state.drafts = {}
    state.move(status, at, error)


def _alter_notice(state: WorkState, call: str, **values: Any) -> None:
    notice = state.notices.get(call)
    if notice is not None:
        state.notices[call] = replace(notice, **values)


def _notice_asked(state: WorkState, change: NoticeAsked) -> None:
    state.notices[change.call] = Notice(change.to, change.why, change.until)


def _notice_put_off(state: WorkState, change: NoticePutOff) -> None:
    tries = state.notices[change.call].tries + (change.due is None)
    _alter_notice(state, change.call, due=change.due, tries=tries)


def _notice_given_up(state: WorkState, change: NoticeGivenUp) -> None:
    _alter_notice(state, change.call, standing="void")


def _tokens_voided(state: WorkState, change: TokensVoided) -> None:
    for call in change.calls:
        _alter_notice(state, call, standing="void", due=None)


def _fruitless(state: WorkState, change: Fruitless) -> None:
    _alter_notice(state, change.call, fruitless=state.notices[change.call].fruitless + 1)


def _notified(state: WorkState, change: Notified) -> None:
    if change.to not in state.notified:
        state.notified = (*state.notified, change.to)


def _token_spent(state: WorkState, change: TokenSpent) -> None:
    state.spent = (*state.spent, change.token)
    _alter_notice(state, change.call, standing="spent")


def _turned_away(state: WorkState, change: TurnedAway) -> None:
    state.turned_away += 1


APPLY = apply_table(globals())


def apply(state: WorkState, change: WorkChange) -> None:
    """Alter the state as the change says."""
    APPLY[type(change)](state, change)

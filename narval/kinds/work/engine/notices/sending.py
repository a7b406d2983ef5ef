"""Sending of notices: who is written to about an item, when, and why (P32, P60, P63, P77).

A notice is a call, which the runtime makes; a person answers by the token that the notice brings. Whoever may
act has one that counts, and no one else does: so who comes to be asked is written to, and the token of who is
not asked any more is void.
"""

from __future__ import annotations

from collections.abc import Iterable

from narval.core.engines import commands
from narval.core.engines.calls import backoff
from narval.core.engines.commands import NOTICE
from narval.core.engines.events import Plain, Returned
from narval.kinds.work.engine.changes import (
    Escalated,
    NoticeAsked,
    NoticeGivenUp,
    NoticePutOff,
    Notified,
    Reminded,
    TokensVoided,
)
from narval.kinds.work.engine.decision import WorkDecision
from narval.kinds.work.engine.state import WorkState

MAIL = "mail"
"""The way of notices."""

LIFE = 30 * 86400.0
"""Seconds for which a token counts at most."""

MOST_TRIES = 24
"""A notice is tried so often, later and later, for a day at most."""

FIRST_WAIT = 30.0
"""Seconds from the first try to the second."""

TIMEOUT = 120.0
"""Seconds that a try may take."""


def settle(decision: WorkDecision) -> None:
    """See that who may act has a token that counts, and that no token of others does."""
    state, now = decision.state, decision.event.at
    if MAIL not in decision.definition.ways or state.status not in ("offered", "claimed"):
        return
    asked = decision.to_be_told()
    void = tuple(
        call
        for call, notice in state.notices.items()
        if notice.standing == "live" and notice.until is not None and notice.to not in asked
    )
    if void:
        decision.change(TokensVoided(now, void))
    have = {notice.to for notice in state.notices.values() if notice.counts(now)}
    reminded = {to for change in decision.changes if isinstance(change, Reminded) for to in change.to}
    escalated = any(isinstance(change, Escalated) for change in decision.changes)
    for person in asked:
        if person in reminded or person not in have:
            new = "claimed" if state.claim is not None else "escalated" if escalated else "offered"
            why = "reminder" if person in reminded else new
            write(decision, person, why, until=min(now + LIFE, state.deadline or now + LIFE))


def tell_end(decision: WorkDecision, sentence: str) -> None:
    """Tell all who were written to that an item has ended, once; not who ended it."""
    state = decision.state
    written_to = dict.fromkeys((*state.notified, *(notice.to for notice in state.notices.values())))
    for person in written_to:
        if person not in state.ended_by.split():
            write(decision, person, state.status, sentence)


def write(decision: WorkDecision, person: str, why: str, text: str = "", until: float | None = None) -> None:
    """Have a person written to who has an address."""
    recipient = decision.people.person(person)
    if recipient is None or not recipient.mail:
        return
    call = decision.identifier()
    decision.change(NoticeAsked(decision.event.at, call, person, why, until))
    _call(decision, call, text)


def _call(decision: WorkDecision, call: str, text: str = "") -> None:
    notice, state = decision.state.notices[call], decision.state
    payload: dict[str, Plain] = {"why": notice.why, "shown": state.shown, "title": state.title}
    payload |= {"until": notice.until, "text": text}
    decision.ask(
        commands.Call(call, NOTICE, MAIL, notice.to, timeout=TIMEOUT, attempt=notice.tries, payload=payload)
    )


# --- what comes of them ---------------------------------------------------------------------------------


def returned(decision: WorkDecision, event: Returned) -> None:
    """Note that a notice went out, or try it again later."""
    notice, now, problem = decision.state.notices.get(event.call), event.at, event.problem
    value = event.value or {}
    if notice is None:
        return
    until = value.get("until")
    if problem is None and not event.abandoned:
        message = str(value.get("message", ""))
        decision.change(Notified(now, notice.to, MAIL, message, notice.why, event.call))
    elif isinstance(until, float | int):
        decision.change(NoticePutOff(now, event.call, float(until)))
    elif problem is None or problem.final or notice.tries >= MOST_TRIES or notice.standing != "live":
        why = problem.message if problem is not None else "given up"
        decision.change(NoticeGivenUp(now, event.call, notice.to, why))
    else:
        wait = backoff.wait(FIRST_WAIT, notice.tries, event.id)
        decision.change(NoticePutOff(now, event.call, now + wait))


def try_again(decision: WorkDecision) -> None:
    """Try notices again whose moment has come: with the same id, so that they are the same mails."""
    for call in _due(decision.state, decision.event.at):
        decision.change(NoticePutOff(decision.event.at, call))
        _call(decision, call)


def _due(state: WorkState, now: float) -> Iterable[str]:
    return [call for call, notice in state.notices.items() if notice.due is not None and notice.due <= now]

"""Notices: who is written to about an item, in which way, when, and why; and the tokens that answer them.

A notice is a call that the runtime makes. A person answers it; a mail is answered by its token. Each person
who may act has one valid notice for each way of the item, and nobody else has one. So a newly asked person is
written to, and the notice of a person who is no longer asked is void. In a chat that person is told, because
the message stays in view; by mail they are not.
"""

from __future__ import annotations

from narval.core.agreeing import refusal as refusal_of
from narval.core.definitions.people.directory import CHAT, MAIL, WRITTEN
from narval.core.engines import commands
from narval.core.engines.commands import NOTICE
from narval.core.engines.dates import retry_wait
from narval.core.engines.events import Failure, Plain, Returned, Signalled
from narval.kinds.work.engine.changes import (
    Delegated,
    Escalated,
    Fruitless,
    NoticeAsked,
    NoticeGivenUp,
    NoticePutOff,
    Notified,
    Reminded,
    TokenSpent,
    TokensVoided,
)
from narval.kinds.work.engine.decision import WorkDecision
from narval.kinds.work.engine.state import WorkState
from narval.kinds.work.engine.texts import one_line

LIFE = 30 * 86400.0
"""The most seconds for which a notice is valid."""

MOST_TRIES = 24
"""The most tries of a notice, with growing pauses, within a day."""

FIRST_WAIT = 30.0
"""Seconds from the first try to the second."""

TIMEOUT = 120.0
"""Seconds that a try may take."""

HANDED = "handed"
"""The reason of a notice to a person who was handed an item, whether or not they were asked before."""

TAKEN = "taken"
"""The reason of a notice to a person who is no longer asked."""


def settle(decision: WorkDecision) -> None:
    """Give each person who may act a valid notice for each way of the item, and void all others."""
    if decision.state.status in ("offered", "claimed"):
        for way in decision.definition.ways_of(decision.people):
            if way in WRITTEN:
                _settle_way(decision, way)


def _settle_way(decision: WorkDecision, way: str) -> None:
    state, now = decision.state, decision.event.at
    asked, notices = _to_be_asked(decision, way), state.notices.items()
    void = tuple(
        call
        for call, notice in notices
        if notice.way == way
        and notice.standing == "live"
        and notice.until is not None
        and notice.to not in asked
    )
    if void:
        not_asked = dict.fromkeys(state.notices[call].to for call in void)
        decision.change(TokensVoided(now, void))
        for person in not_asked if way == CHAT else ():
            if not _has_just_acted(decision, person):
                write(decision, way, person, TAKEN, _why_not_asked(state, person))
    have = {notice.to for _, notice in notices if notice.way == way and notice.counts(now)}
    reminded = {to for change in decision.changes if isinstance(change, Reminded) for to in change.to}
    escalated = any(isinstance(change, Escalated) for change in decision.changes)
    handed = {change.to: change for change in decision.changes if isinstance(change, Delegated)}
    new = "claimed" if state.claim is not None else "escalated" if escalated else "offered"
    for person in asked:
        if person in handed or person in reminded or person not in have:
            delegated = handed.get(person)
            why = HANDED if delegated is not None else "reminder" if person in reminded else new
            text = _handed_by(delegated) if delegated is not None else ""
            write(decision, way, person, why, text, min(now + LIFE, state.deadline or now + LIFE))


def _to_be_asked(decision: WorkDecision, way: str) -> tuple[str, ...]:
    """The people who are asked in a way: at a chat, as on pages, a reader cannot answer."""
    names = decision.to_be_written_to()
    if way != CHAT:
        return names
    by_name = {name: decision.people.person(name) for name in names}
    return tuple(name for name, person in by_name.items() if person and not refusal_of("people", person.web))


def _handed_by(delegated: Delegated) -> str:
    """The sentence for a person who is handed an item."""
    word = one_line(delegated.word)
    return f"{delegated.by} hands you this:\n| {word}" if word else f"{delegated.by} hands you this."


def _why_not_asked(state: WorkState, person: str) -> str:
    """The sentence for a person whose message about an open item is no longer valid."""
    if person in state.votes:
        return f"you have answered {state.votes[person].outcome}"
    return f"{state.claim.by} has it now" if state.claim is not None else "you are no longer asked"


def _has_just_acted(decision: WorkDecision, person: str) -> bool:
    """True if this event is an act by chat of this person: the answer to it tells them."""
    event = decision.event
    return (
        isinstance(event, Signalled)
        and event.by == person
        and event.act is not None
        and event.act.way == CHAT
    )


def tell_end(decision: WorkDecision, sentence: str) -> None:
    """Tell everybody who was written to that an item has ended, once in each way.

    The person who ended it is not told, except in a chat if they answered elsewhere.
    """
    state = decision.state
    written_to = dict.fromkeys((notice.to, notice.way) for notice in state.notices.values())
    noted = {person for person, _ in written_to}
    written_to |= dict.fromkeys((person, MAIL) for person in state.notified if person not in noted)
    for person, way in written_to:
        is_told = _has_just_acted(decision, person) if way == CHAT else person in state.ended_by.split()
        if not is_told:
            write(decision, way, person, state.status, sentence)


def write(
    decision: WorkDecision, way: str, person: str, why: str, text: str = "", until: float | None = None
) -> None:
    """Send a person a notice in a way, if they have an address for it."""
    recipient = decision.people.person(person)
    if recipient is None or not recipient.addresses(way):
        return
    call = decision.identifier()
    decision.change(NoticeAsked(decision.event.at, call, person, why, until, way))
    _call(decision, call, text)


def _call(decision: WorkDecision, call: str, text: str = "") -> None:
    notice, state = decision.state.notices[call], decision.state
    payload: dict[str, Plain] = {"why": notice.why, "shown": state.shown, "title": state.title}
    payload |= {"until": notice.until, "text": text}
    if notice.way == CHAT:
        payload["deadline"] = state.ends_at
    decision.ask(
        commands.Call(
            call, NOTICE, notice.way, notice.to, timeout=TIMEOUT, attempt=notice.tries, payload=payload
        )
    )


# --- the results of notices -----------------------------------------------------------------------------


def returned(decision: WorkDecision, event: Returned) -> None:
    """Record that a notice was sent, or try it again later."""
    notice, now, problem = decision.state.notices.get(event.call), event.at, event.problem
    value = event.value or {}
    if notice is None:
        return
    until = value.get("until")
    if problem is None and not event.abandoned:
        message = str(value.get("message", ""))
        decision.change(Notified(now, notice.to, notice.way, message, notice.why, event.call))
    elif isinstance(until, float | int):
        why = problem.message if problem is not None else ""
        decision.change(NoticePutOff(now, event.call, float(until), notice.to, why))
    elif problem is None or problem.final or notice.tries >= MOST_TRIES or notice.standing != "live":
        why = problem.message if problem is not None else "given up"
        decision.change(NoticeGivenUp(now, event.call, notice.to, why))
    else:
        due = now + retry_wait(FIRST_WAIT, notice.tries, event.id)
        why = problem.message if notice.tries == 1 else ""  # later tries would only repeat it
        decision.change(NoticePutOff(now, event.call, due, notice.to if why else "", why))


def try_again(decision: WorkDecision) -> None:
    """Retry the notices that are due, with the same ids, so that they are the same messages."""
    now = decision.event.at
    for call, notice in list(decision.state.notices.items()):
        if notice.due is not None and notice.due <= now:
            decision.change(NoticePutOff(now, call))
            _call(decision, call)


# --- tokens -----------------------------------------------------------------------------------------------

MOST_FRUITLESS = 5
"""The number of mails without an answer after which a token is void."""

SPENT, EXPIRED = "token-spent", "token-expired"

LATE = "late"
"""The reason of a notice to a person who answers an item that has ended."""

NOT_UNDERSTOOD = "not-understood"
"""The kind of the problem of a text that is not an answer."""


def refusal(decision: WorkDecision, event: Signalled) -> Failure | None:
    """The reason why the token of an act is not valid; None if it is, or if there is no token."""
    state, token = decision.state, event.act.token if event.act is not None else ""
    if token and token in state.spent:
        return Failure(SPENT, "this was answered by that mail already; look for a newer one")
    notice = state.notices.get(event.text("notice"))
    if notice is None or notice.counts(event.at):
        return None
    if notice.standing == "live" and notice.until == state.deadline and notice.until is not None:
        return None  # the deadline was missed, and is postponed
    claim = state.claim
    if claim is not None and claim.by != event.by:
        return None  # the table reports the claimant
    return Failure(EXPIRED, "this mail has expired; look for a newer one, or use `narval work`")


def spend(decision: WorkDecision, event: Signalled) -> None:
    """Record that the token of an act is used."""
    if event.act is not None and event.act.token:
        decision.change(TokenSpent(event.at, event.act.token, event.by, event.text("notice")))


def refused(decision: WorkDecision, event: Signalled, failure: Failure) -> None:
    """Tell a person by mail why their text was refused; only once for a token that is no longer valid, or an
    item that has ended.
    """
    call, state = event.text("notice"), decision.state
    if call not in state.notices:
        return
    if state.over:
        _tell_once(decision, event.by, LATE, failure.message)
    elif failure.kind not in (SPENT, EXPIRED):
        _count_fruitless(decision, event)
        write(decision, MAIL, event.by, "refused", failure.message)
    else:
        _tell_once(decision, event.by, SPENT, failure.message)


def no_act(decision: WorkDecision, event: Signalled, failure: Failure) -> None:
    """Count a mail that was not an answer; tell its writer once that it was not understood."""
    if failure.kind == NOT_UNDERSTOOD:
        _tell_once(decision, event.by, NOT_UNDERSTOOD, f"{failure.message}; reply to that mail again")
    _count_fruitless(decision, event)


def _tell_once(decision: WorkDecision, person: str, why: str, text: str) -> None:
    """Write to a person about an item, once for this reason."""
    if not any(notice.to == person and notice.why == why for notice in decision.state.notices.values()):
        write(decision, MAIL, person, why, text)


def _count_fruitless(decision: WorkDecision, event: Signalled) -> None:
    """Count a mail that was not an answer; the fifth voids its token."""
    call = event.text("notice")
    notice = decision.state.notices.get(call)
    if notice is not None and notice.standing == "live":
        decision.change(Fruitless(event.at, call))
        if notice.fruitless + 1 >= MOST_FRUITLESS:
            decision.change(TokensVoided(event.at, (call,)))

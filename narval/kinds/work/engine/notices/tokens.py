"""The tokens of notices: which are valid, which are used, and the replies to invalid ones (P63, P64)."""

from __future__ import annotations

from narval.core.definitions.people.directory import MAIL
from narval.core.engines.events import Failure, Signalled
from narval.kinds.work.engine.changes import Fruitless, TokenSpent, TokensVoided
from narval.kinds.work.engine.decision import WorkDecision
from narval.kinds.work.engine.notices.sending import write

MOST_FRUITLESS = 5
"""The number of mails without an answer after which a token is void."""

SPENT, EXPIRED = "token-spent", "token-expired"

NOT_UNDERSTOOD = "not-understood"
"""The kind of the problem of a text that is not an answer."""


def refusal(decision: WorkDecision, event: Signalled) -> Failure | None:
    """The reason why the token of an act is not valid; None if it is, or if there is no token."""
    state, token = decision.state, event.act.token if event.act is not None else ""
    if token and token in state.spent:
        return Failure(SPENT, "this was answered by that mail already; look for a newer one")
    notice = state.notices.get(_notice_of(event))
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
        decision.change(TokenSpent(event.at, event.act.token, event.by, _notice_of(event)))


def refused(decision: WorkDecision, event: Signalled, failure: Failure) -> None:
    """Tell a person by mail why their text was refused; for a token that is no longer valid, only once."""
    call, state = _notice_of(event), decision.state
    if call not in state.notices or decision.state.over:
        return
    if failure.kind not in (SPENT, EXPIRED):
        count_fruitless(decision, event)
        write(decision, MAIL, event.by, "refused", failure.message)
    else:
        _tell_once(decision, event.by, SPENT, failure.message)


def no_act(decision: WorkDecision, event: Signalled, failure: Failure) -> None:
    """Count a mail that was not an answer; tell its writer once that it was not understood."""
    if failure.kind == NOT_UNDERSTOOD:
        _tell_once(decision, event.by, NOT_UNDERSTOOD, f"{failure.message}; reply to that mail again")
    count_fruitless(decision, event)


def _tell_once(decision: WorkDecision, person: str, why: str, text: str) -> None:
    """Write to a person about an item, once for this reason."""
    if not any(notice.to == person and notice.why == why for notice in decision.state.notices.values()):
        write(decision, MAIL, person, why, text)


def count_fruitless(decision: WorkDecision, event: Signalled) -> None:
    """Count a mail that was not an answer; the fifth voids its token."""
    call = _notice_of(event)
    notice = decision.state.notices.get(call)
    if notice is not None and notice.standing == "live":
        decision.change(Fruitless(event.at, call))
        if notice.fruitless + 1 >= MOST_FRUITLESS:
            decision.change(TokensVoided(event.at, (call,)))


def _notice_of(event: Signalled) -> str:
    call = event.arguments.get("notice")
    return call if isinstance(call, str) else ""

"""The acts of people on an item (P20–P25): each gets its result, or the reason why it is refused.

Where several people answer (P26–P28), each has one vote, which may be changed or taken back while the item is
open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from narval.core.agreeing import Act, refusal, sentence
from narval.core.definitions.people.directory import ALWAYS, ONCE, Right, known_as
from narval.core.definitions.suggestions import closest, nearest
from narval.core.definitions.wall import in_zone
from narval.core.engines import commands
from narval.core.engines.events import Plain, Signalled
from narval.kinds.work.engine import ending
from narval.kinds.work.engine.changes import (
    ClaimReleased,
    Delegated,
    Reassigned,
    Refused,
    Saved,
    TaskMoved,
    VoteChanged,
    Voted,
)
from narval.kinds.work.engine.decision import (
    NotSoError,
    WorkDecision,
    by_whom,
    escalate,
    hand_back,
    lease_from,
    may_answer,
    take,
)
from narval.kinds.work.engine.ending import checked, draft
from narval.kinds.work.engine.state import (
    TaskWays,
    Values,
    Vote,
    WorkState,
    agreement,
    asked,
    offers,
    task_ways,
)
from narval.kinds.work.engine.table import ACTS_ON_ITEMS, No
from narval.kinds.work.language.definition import WorkDefinition, WorkOutcome

MOST_IN_A_ROW = 3
"""The most delegations in a row."""

LONGEST_WORD = 10_000
"""The most characters of a reason, or of the note with a delegation."""


def act(decision: WorkDecision, event: Signalled) -> None:
    """Do what a person asks, and answer. Raises NotSoError if the rules refuse it."""
    state, definition = decision.state, decision.definition
    assert event.act is not None, event
    row = ACTS_ON_ITEMS[event.name]
    _check_may(decision, event, agreement(definition, state))
    ways = definition.ways_of(decision.people)
    if row.who != "admin" and event.act.way not in ways:
        message = f"{event.act.way or 'this'} is no way to answer this; use {' or '.join(ways)}"
        raise NotSoError("way-not-allowed", message)
    shown = event.arguments.get("shown")
    if shown and shown != state.shown:
        raise NotSoError("changed", "this is not the text that the item shows now; look at it again")
    if any(len(event.text(name)) > LONGEST_WORD for name in ("reason", "word")):
        raise NotSoError("bad-field", f"a reason has at most {LONGEST_WORD:,} characters; shorten it")
    decision.check_claim()
    claim = state.claim
    cell = row.cell(state.claimant, event.by, is_voted=definition.is_voted)
    is_admin = decision.people.is_admin(event.by)
    if isinstance(cell, No) and not (row.who == "claimant or admin" and is_admin and claim is not None):
        raise _refused(decision, cell.kind)
    if event.text("claimed") and claim is None:
        may_answer(decision, event.by)
        why = f": {state.moved.sentence(decision.view.zone)}" if state.moved is not None else ""
        raise NotSoError("changed", f"you no longer have this{why}; look at it, and answer it again")
    if row.who == "admin" and not is_admin:
        raise NotSoError("not-eligible", sentence("administer", "person", event.by))
    _ACTS[event.name](decision, event)


def _refused(decision: WorkDecision, kind: str) -> NotSoError:
    claim = decision.state.claim
    if kind == "not-exclusive":
        return NotSoError(kind, "several people answer this, so no person has it alone; answer it")
    if claim is None or kind == "not-claimed":
        return NotSoError(kind, "no person has this: there is nothing to take back; answer it, or claim it")
    zone = decision.view.zone
    until = f" until {in_zone(claim.until, zone)}" if claim.until is not None else ""
    message = f"claimed by {claim.by} since {in_zone(claim.since, zone)}{until}; ask {claim.by} to release it"
    return NotSoError("claimed", message)


def _claim(decision: WorkDecision, event: Signalled) -> None:
    take(decision, event)
    claim = decision.state.claim
    assert claim is not None, event
    decision.answer(event, state=decision.state.status, by=claim.by, since=claim.since, until=claim.until)


def _release(decision: WorkDecision, event: Signalled) -> None:
    claim = decision.state.claim
    assert claim is not None, event
    decision.change(ClaimReleased(**by_whom(event), of=claim.by, why=event.text("reason")))
    decision.answer(event, state=decision.state.status)


def _save(decision: WorkDecision, event: Signalled) -> None:
    fields = draft(decision, _values(event))
    if decision.state.claim is None:
        right = may_answer(decision, event.by)
    else:
        right = take(decision, event)
    decision.change(Saved(**by_whom(event, right), fields=fields))
    decision.answer(event, state=decision.state.status)


def _move(decision: WorkDecision, event: Signalled) -> None:
    """Move the task that asks along an edge; the task itself runs the code of its states."""
    state, ways = decision.state, task_ways(decision.state, decision.view.element)
    may_answer(decision, event.by)
    if ways is None or state.caller is None:
        raise NotSoError("no-state", "no task asks this, so there is no state to move to; answer it")
    word = event.text("state").lower().replace("_", "-")
    if word not in ways.moves:
        raise NotSoError("no-state", _no_way(ways, word))
    right = take(decision, event)
    decision.change(TaskMoved(**by_whom(event, right), to=word))
    run, step = state.caller.run, state.caller.step
    call = decision.identifier()
    decision.command(
        commands.telling(call, decision.definition.full_name, step, "move", {"state": word}, run=run)
    )
    decision.answer(event, state=state.status, to=word)


def _no_way(ways: TaskWays, word: str) -> str:
    """The sentence that says why a task cannot be moved to a state, and which states it can be moved to."""
    if word in ways.ends:
        return f"{word!r:.80} ends the task: answer with it"
    end = f"; to end it, answer {' or '.join(ways.ends)}" if ways.ends else ""
    if not ways.moves:
        return f"the task is moved to no other state now{f': it is in {ways.at}' if ways.at else ''}{end}"
    there = f"expected {' or '.join(ways.moves)}, the states that follow {ways.at or 'where it is'}"
    return f"{there}, got {word!r:.80}{closest(word[:80], ways.moves)}{end}"


def _delegate(decision: WorkDecision, event: Signalled) -> None:
    state, rules, to = decision.state, decision.definition.rules, event.text("to")
    may_answer(decision, event.by)
    if rules.delegate == "no":
        raise NotSoError("not-eligible", "this may not be delegated; answer it, or refuse it")
    _check_able(decision, to)
    chain = [handed.by for handed in state.handed]
    if to == event.by:
        raise NotSoError("not-eligible", "this cannot be delegated to yourself; answer it, or name another")
    if to in chain:
        raise NotSoError("not-eligible", f"{to} has delegated this already; answer it, or refuse it")
    if len(chain) >= MOST_IN_A_ROW:
        raise NotSoError("not-eligible", f"this was delegated {MOST_IN_A_ROW} times; answer it, or refuse it")
    if to in decision.excluded or to in state.refused:
        raise decision.why_not(to)
    if rules.delegate == "eligible" and not _is_asked(decision, to):
        raise NotSoError(
            "not-eligible", f"{to} may not answer: this asks {asked(decision.definition, state)}"
        )
    right = take(decision, event)
    word, until = event.text("word"), lease_from(decision)
    decision.change(Delegated(**by_whom(event, right), to=to, word=word, until=until))
    decision.answer(event, state=state.status, to=to)


def _check_able(decision: WorkDecision, person: str) -> None:
    """Raise NotSoError unless there is such a person, who may answer such an item in their own name."""
    if decision.people.person(person) is None:
        suggestion = closest(person[:80], [one.name for one in decision.people.people])
        raise NotSoError("not-eligible", f"there is no person {person!r:.80}{suggestion}")
    if why := decision.refusal_of(person):
        raise NotSoError("not-eligible", why)


def _is_asked(decision: WorkDecision, person: str) -> bool:
    """True if a person may answer by the rules of the work, regardless of delegations."""
    state = decision.state
    handed = state.handed[0] if state.handed else None
    if handed is None:
        return decision.right(person) is not None
    day = decision.day
    return any(
        decision.people.right(person, *audience, decision.out(person), day) is not None
        for audience in offers(decision.definition, state, before=handed)
    )


def _answer(decision: WorkDecision, event: Signalled) -> None:
    right, state = may_answer(decision, event.by), decision.state
    outcome = _outcome(decision, event)
    ways = task_ways(state, decision.view.element)
    if ways is not None and outcome.name not in ways.ends:
        there = f"answer {' or '.join(ways.ends)}, or move it first"
        raise NotSoError(
            "no-outcome", f"from {ways.at or 'where it is'} the task cannot end in {outcome.name}; {there}"
        )
    _check_always(decision, event, outcome)
    fields = checked(decision, outcome, _values(event))
    if decision.definition.is_voted:
        vote(decision, event, right, outcome, fields)
    else:
        ending.answer(decision, event, right, outcome.name, fields)
    own = answered(decision.definition, state, event.by)
    decision.answer(
        event, state=state.status, outcome=outcome.name, answer=state.answer or None, answered=own
    )


def _check_may(decision: WorkDecision, event: Signalled, act: Act) -> None:
    """Raise NotSoError unless the person who acts on an item may do such an act."""
    assert event.act is not None, event
    if why := refusal(act, event.act.who or known_as(decision.people, event.by), event.by, event.actor):
        raise NotSoError("not-eligible", why)


def _check_always(decision: WorkDecision, event: Signalled, outcome: WorkOutcome) -> None:
    """Raise NotSoError if a person may not agree to all such future calls, or no rule can describe them."""
    caller = decision.state.caller
    held = caller.held if caller is not None else None
    if held is None or not held.parts or outcome.name != ALWAYS:
        return
    _check_may(decision, event, "always")
    if not held.always:
        message = "what is shown cannot be said in a rule: it is long, has parts, or is several"
        raise NotSoError("no-outcome", f"{message}; answer {ONCE}, or write a rule into etc/trust.toml")


def _outcome(decision: WorkDecision, event: Signalled) -> WorkOutcome:
    """The chosen outcome; if there is only one, it need not be named. Raises NotSoError."""
    outcomes, name = decision.definition.outcomes, event.text("outcome")
    chosen = decision.definition.outcome(name) if name or len(outcomes) > 1 else outcomes[0]
    if chosen is None:
        names = [outcome.name for outcome in outcomes]
        near = nearest(name[:80], names)
        meant = f"; did you mean {near!r}?" if near else ""
        got = f"{name!r:.80}" if name else "no outcome"
        raise NotSoError("no-outcome", f"expected {' or '.join(names)}, got {got}{meant}")
    return chosen


def _take_back(decision: WorkDecision, event: Signalled) -> None:
    if event.by not in decision.state.votes:
        raise NotSoError("not-claimed", "you have not answered this; there is nothing to take back")
    take_back(decision, event)
    decision.answer(event, state=decision.state.status)


def _refuse(decision: WorkDecision, event: Signalled) -> None:
    """Record that a person refuses for good; excluded people may do so as well."""
    state = decision.state
    right = decision.right_of(event.by, state.refused.keys())
    if right is None:
        raise decision.why_not(event.by)
    if event.by in state.votes:
        take_back(decision, event, settled=False)
    decision.change(Refused(**by_whom(event, right), why=event.text("reason")))
    if state.handed and event.by == state.handed[-1].to:
        hand_back(decision)
    if decision.definition.is_voted:
        settle_votes(decision)
    elif state.claim is None:
        ending.end_if_nobody_is_left(decision)
    decision.answer(event, state=state.status)


def _reassign(decision: WorkDecision, event: Signalled) -> None:
    to = event.arguments.get("to")
    named = tuple(dict.fromkeys(map(str, to if isinstance(to, list) else str(to or "").split())))
    if not named:
        raise NotSoError("not-eligible", "expected the names of those to whom it is to be offered")
    for person in named:
        _check_able(decision, person)
        if person in decision.excluded:
            raise NotSoError("excluded", f"{person}: {decision.excluded[person]}")
        if person in decision.state.refused:
            raise NotSoError("not-eligible", f"{person} has refused this")
    decision.change(Reassigned(**by_whom(event), to=named, why=event.text("reason")))
    decision.answer(event, state=decision.state.status, to=list(named))


def _values(event: Signalled) -> Mapping[str, Plain]:
    fields = event.arguments.get("fields")
    return fields if isinstance(fields, dict) else {}


_ACTS: Mapping[str, Callable[[WorkDecision, Signalled], None]] = {
    "claim": _claim,
    "release": _release,
    "save": _save,
    "move": _move,
    "delegate": _delegate,
    "answer": _answer,
    "take-back": _take_back,
    "refuse": _refuse,
    "reassign": _reassign,
}


# --- answers of several people ----------------------------------------------------------------------------


def vote(
    decision: WorkDecision, event: Signalled, right: Right, outcome: WorkOutcome, fields: Values
) -> None:
    """Count an answer, and end the item if it is decided."""
    earlier = decision.state.votes.get(event.by)
    change = Voted if earlier is None else VoteChanged
    decision.change(change(**by_whom(event, right), outcome=outcome.name, fields=fields))
    settle_votes(decision)


def take_back(decision: WorkDecision, event: Signalled, *, settled: bool = True) -> None:
    """Take back an answer."""
    decision.change(VoteChanged(**by_whom(event)))
    if settled:
        settle_votes(decision)


def answered(definition: WorkDefinition, state: WorkState, person: str) -> dict[str, Plain] | None:
    """The answer of a person to an open item, with the number of people who gave it, and the number
    needed.
    """
    if state.over or person not in state.votes:
        return None
    outcome = definition.outcome(state.votes[person].outcome)
    if outcome is None:  # the definition has changed
        return None
    return {"outcome": outcome.name, "has": len(state.voters(outcome.name)), "needs": outcome.needs}


def counted(decision: WorkDecision, outcome: WorkOutcome) -> list[Vote]:
    """The answers for an outcome that count, without those of excluded people."""
    return [
        vote
        for vote in decision.state.votes.values()
        if vote.outcome == outcome.name and vote.by not in decision.excluded
    ]


def left(decision: WorkDecision) -> int:
    """The number of people who may still answer; an absent person and their substitute count once."""
    return len({right.instead_of or name for name, right in decision.eligible().items()})


def _reachable(decision: WorkDecision) -> Iterator[WorkOutcome]:
    more = left(decision)
    for outcome in decision.definition.outcomes:
        if len(counted(decision, outcome)) + more >= outcome.needs:
            yield outcome


def settle_votes(decision: WorkDecision) -> None:
    """End an item that is decided, or that the remaining people cannot decide."""
    state, definition = decision.state, decision.definition
    for outcome in definition.outcomes:
        count = counted(decision, outcome)
        if len(count) >= outcome.needs:
            ending.end_by_votes(decision, outcome.name, count)
            return
    if next(_reachable(decision), None) is not None:
        return
    if state.level < len(definition.escalations):
        escalate(decision)
        settle_votes(decision)
    elif not state.votes and not left(decision):
        ending.end_if_nobody_is_left(decision)
    elif definition.otherwise:
        ending.end_by_votes(decision, definition.otherwise, [])
    else:
        needed = ", ".join(f"{outcome.name} {outcome.needs}" for outcome in definition.outcomes)
        message = f"no outcome of {definition.full_name} can be reached any more; needed: {needed}"
        ending.give_up(decision, "no-quorum", message)

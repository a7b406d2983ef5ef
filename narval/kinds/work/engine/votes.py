"""Answers by several people (P26–P28): one each, which may be changed or taken back while the item is
open.
"""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.people.directory import Right
from narval.core.engines.events import Plain, Signalled
from narval.kinds.work.engine import ending
from narval.kinds.work.engine.changes import VoteChanged, Voted
from narval.kinds.work.engine.claims import by_whom, escalate
from narval.kinds.work.engine.decision import WorkDecision
from narval.kinds.work.engine.state import Values, Vote, WorkState
from narval.kinds.work.language.definition import WorkDefinition, WorkOutcome


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

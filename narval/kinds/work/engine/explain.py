"""A work item for people: as an element (P6), its waits, its parts, and the reasons for their state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lxml import etree

from narval.core.definitions.wall import in_utc
from narval.core.elements.own_elements import xml_safe
from narval.core.engines.commands import Watch
from narval.core.engines.engine import Wait
from narval.core.engines.story import Fact, Story, Words
from narval.kinds.work.engine.state import WorkState, asked
from narval.kinds.work.engine.table import DRAWN
from narval.kinds.work.language.definition import WorkDefinition


def render(definition: WorkDefinition, state: WorkState, context: Iterable[int]) -> bytes:
    """The `work` element; answers and drafts are not in it.

    It is overdue once a reminder was due, or it was escalated.
    """
    root = etree.Element("work", name=definition.full_name, state=state.status)
    caller = state.caller
    row: dict[str, Any] = {
        "title": xml_safe(state.title),
        "run": caller.run if caller is not None else None,
        "step": caller.step if caller is not None else None,
        "for": asked(definition, state),
        "claimed": state.claim.by if state.claim is not None else None,
        "outcome": state.outcome,
        "answers": len(state.votes) if definition.is_voted else None,
        "needs": max(outcome.needs for outcome in definition.outcomes) if definition.is_voted else None,
        "reminded": state.reminded or None,
        "level": state.level or None,
        "overdue": "yes" if is_overdue(state) and not state.over else None,
        "deadline": in_utc(state.ends_at),
        "priority": f"{state.priority:g}" if state.priority else None,
    }
    for name, value in row.items():
        if value not in (None, ""):
            root.set(name, str(value))
    return etree.tostring(root, encoding="utf-8")


def is_overdue(state: WorkState) -> bool:
    """True once a reminder of the item was due, or it was escalated."""
    return bool(state.reminded or state.level)


def urged(state: WorkState) -> str:
    """The word for an open item that waits too long, reminded or escalated; "" if it is neither."""
    if state.over or not is_overdue(state):
        return ""
    return "escalated" if state.level else "reminded"


def waiting_for(definition: WorkDefinition, state: WorkState, watches: dict[str, Watch]) -> Iterator[Wait]:
    """The people an item waits for, and its deadline."""
    if state.over or not state.people:
        return
    claim, by_ways = state.claim, _asked_by_ways(state)
    who = f"{claim.by}, who has claimed it" if claim is not None else asked(definition, state)
    until = claim.until if claim is not None else None
    who += f"{_answered(definition, state)}{by_ways}"
    yield Wait("answer", "person", who, until=until, about=state.title or definition.full_name)
    if state.ends_at is not None:
        yield Wait("deadline", "limit", until=state.ends_at)


def _answered(definition: WorkDefinition, state: WorkState) -> str:
    """The words that say how many have answered, of those who must; "" before the first."""
    needs = max(outcome.needs for outcome in definition.outcomes)
    return f" ({len(state.votes)} of {needs} have answered)" if state.votes else ""


MOST_NAMED = 5
"""The most people named of those who were written to; the others are counted."""


def _ways_of_asking(state: WorkState) -> dict[str, list[str]]:
    """The ways in which people are asked in writing and may answer, by person."""
    ways: dict[str, list[str]] = {}
    for notice in state.notices.values():
        if notice.standing == "live" and notice.until is not None:
            ways.setdefault(notice.to, []).append(notice.way)
    return {person: list(dict.fromkeys(names)) for person, names in ways.items()}


def _asked_by_ways(state: WorkState) -> str:
    """The words that say who is asked in writing, and how; "" if nobody is."""
    ways = _ways_of_asking(state)
    named = [f"{person} by {' and '.join(names)}" for person, names in list(ways.items())[:MOST_NAMED]]
    more = [f"{len(ways) - MOST_NAMED} more"] if len(ways) > MOST_NAMED else []
    return f" (written to: {', '.join([*named, *more])})" if ways else ""


def hides_votes(definition: WorkDefinition, state: WorkState) -> bool:
    """True while only people who have answered may see the answers of others (P27)."""
    return definition.is_voted and not state.over and not definition.rules.open_votes


_TELLING = {"Voted", "VoteChanged", "Saved", "Signalled", "Answer", "TurnedAway"}
"""The lines of history that reveal what a person answers, or tried to answer."""

_TOLD = ("outcome", "fields", "arguments", "value", "why", "problem")
"""The keys of those lines that reveal it."""


def conceal(definition: WorkDefinition, state: WorkState, line: dict[str, Any]) -> dict[str, Any]:
    """A line of history without the answer, while that is hidden."""
    if line["what"] not in _TELLING or not hides_votes(definition, state):
        return line
    return {name: value for name, value in line.items() if name not in _TOLD}


def parts(definition: WorkDefinition, state: WorkState) -> dict[str, list[dict[str, Any]]]:
    """The outcomes with the number of answers for each, and the people who have done something."""
    is_hidden = hides_votes(definition, state)
    outcomes = [
        {
            "id": outcome.name,
            "state": "taken" if state.outcome == outcome.name else "open",
            "needs": outcome.needs,
            "has": None if is_hidden else len(state.voters(outcome.name)),
        }
        for outcome in definition.outcomes
    ]
    people = [
        {"id": name, "state": "answered" if is_hidden and name in state.votes else how}
        for name, how in state.progress()
    ]
    return {"outcomes": outcomes, "people": people}


def explain(definition: WorkDefinition, state: WorkState, identifier: str | None) -> Words | None:
    """The reason for the state of the item, or of an outcome or person of it; None if there is none."""
    if identifier is None:
        return _reason(definition, state)
    outcome = definition.outcome(identifier)
    if outcome is not None:
        has = state.voters(identifier)
        if state.outcome == identifier:
            return f"it was answered{f' by {state.ended_by}' if state.ended_by else ' by the deadline'}"
        if hides_votes(definition, state):
            return f"votes are shown once it is over, or to those who have voted; it needs {outcome.needs}"
        return f"{len(has)} of {outcome.needs} have answered so{': ' if has else ''}{', '.join(has)}"
    if identifier in state.refused:
        return f"{identifier} has refused: {state.refused[identifier] or 'no reason given'}"
    if identifier in state.votes:
        is_hidden = hides_votes(definition, state)
        return f"{identifier} has answered{'' if is_hidden else f' {state.votes[identifier].outcome}'}"
    if state.claim is not None and state.claim.by == identifier:
        return f"{identifier} has claimed it since ", state.claim.since
    if ways := _ways_of_asking(state).get(identifier):
        return f"{identifier} was asked by {' and '.join(ways)}, and has not answered"
    if identifier == state.status:
        return _reason(definition, state) or f"it is {identifier}"
    moves = [f"{start} by {why}" for start, end, why in DRAWN if end == identifier]
    exists = moves or any(identifier == start for start, _, _ in DRAWN)
    return (
        f"it is {state.status}, not {identifier}; to that lead {'; '.join(moves) or 'none'}"
        if exists
        else None
    )


def _reason(definition: WorkDefinition, state: WorkState) -> Words | None:
    match state.status:
        case "done":
            who = f"by {state.ended_by}" if state.ended_by else "by the default of its deadline"
            return f"it was answered {state.outcome} {who}"
        case "refused":
            return f"no person is left to answer; it was refused by {', '.join(state.refused)}"
        case "expired" if state.ends_at is not None:
            return "no person answered before ", state.ends_at
        case "withdrawn":
            whom = f" by {state.ended_by}" if state.ended_by else ""
            return f"it was withdrawn{whom}{f': {state.ended_why}' if state.ended_why else ''}"
        case "claimed" if state.claim is not None:
            return f"{state.claim.by} has claimed it since ", state.claim.since
    return None


part_word = "person"

story: Story = {
    "Offered": Fact("It is offered: {title}[, to {could}][; its deadline is {deadline:moment}]."),
    "Claimed": Fact("{by} takes it[, until {until:moment}]."),
    "ClaimReleased": Fact("{by} gives it back[: {why}]."),
    "LeaseEnded": Fact("The claim of {of} ends."),
    "Saved": Fact("{by} keeps a draft."),
    "TaskMoved": Fact("{by} moves the task to {to}."),
    "Delegated": Fact("{by} hands it to {to}[: {word}]."),
    "DelegationEnded": Fact("It comes back from {to}."),
    "Voted": Fact("{by} answers[ {outcome}]."),
    "VoteChanged": Fact("{by} changes an answer[ to {outcome}]."),
    "ItemAnswered": Fact("It is answered[ by {by}][: {outcome}]."),
    "Refused": Fact("{by} will not do it[: {why}]."),
    "Reassigned": Fact("{by} has it offered to {to}[: {why}]."),
    "Reminded": Fact("A reminder is due[ for {to}]."),
    "Escalated": Fact("Escalation {level} is taken[: {to} may act]."),
    "Expired": Fact("Its deadline passed without an outcome."),
    "Withdrawn": Fact("It is withdrawn[ by {by}][: {why}]."),
    "GivenUp": Fact("It ends: no person is left to do it, or it cannot be offered."),
    "NoticeAsked": Fact("{to} is to be written to[, by {way}]: {why}."),
    "NoticePutOff": Fact("A notice[ to {to}] did not go out[: {why}][, and is tried again at {due:moment}]."),
    "NoticeGivenUp": Fact("A notice[ to {to}] did not go out[: {why}]."),
    "Notified": Fact("{to} was written to[, by {way}][: {why}]."),
    "TokenSpent": Fact("[{by} used the link of a notice.]"),
    "TurnedAway": Fact("An attempt[ of {by}][ to {act}] was in vain[: {why}]."),
}
"""The changes of interest to people, in sentences."""

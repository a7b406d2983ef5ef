"""Descriptions of work: who is asked what, what may be answered, and what happens if nobody answers."""

from __future__ import annotations

from collections.abc import Iterator

from narval.core.definitions.library import Library
from narval.core.definitions.telling.calls import forgotten, takes, template
from narval.core.definitions.telling.dates import every, interval
from narval.core.definitions.telling.patterns import element_phrase
from narval.core.definitions.telling.sentence import (
    Sentence,
    an,
    counted,
    listed,
    names,
    quoted,
    times,
    verbatim,
)
from narval.kinds.work.language.definition import Audience, Deadline, WorkDefinition
from narval.kinds.work.language.fields import FormField

_DELEGATED = {
    "anyone": "The claimant may hand it on to any person.",
    "no": "Nobody may hand it on to another.",
}
_TYPES = {
    "string": "a line of text",
    "text": "a longer text",
    "integer": "a whole number",
    "decimal": "a number",
    "boolean": "yes or no",
    "date": "a date",
    "dateTime": "a date and time",
    "choice": "a choice",
    "person": "a person",
    "element": "an element of memory",
}


def sentences(work: WorkDefinition, library: Library) -> Iterator[Sentence]:
    """The sentences that describe work."""
    yield Sentence(f"It asks people: {template(work.title)}", work.line)
    yield Sentence("It begins when a person or a program starts it.", work.line)
    if work.description is not None:
        yield Sentence(f"Below it: {template(work.description)}", work.line)
    for text, deeper in takes(work.prototype):
        yield Sentence(text, work.line, depth=deeper)
    if work.inputs_by_digest:
        yield Sentence("What it takes is shown by its digest alone, not as text.", work.line)
    yield from (Sentence(text, work.line) for text in _whom(work))
    yield from (Sentence(text, work.line) for text in _answers(work))
    for field in work.fields.values():
        yield Sentence(f"A field of the answer, {_field(field)}.", work.line, depth=1)
    yield from _in_time(work)
    yield from (Sentence(text, work.line) for text in _errors(work))
    yield from (Sentence(text, work.line) for text in forgotten(work.decay))


# --- whom, and what they may answer -----------------------------------------------------------------------


def _whom(work: WorkDefinition) -> Iterator[str]:
    rules = work.rules
    yield f"It is offered to {_audience(work.audience)}."
    others = f" That counts for {template(rules.requester)} too." if rules.requester is not None else ""
    if rules.excludes_requester:
        yield f"Whoever asked for it may not answer.{others}"
    elif rules.requester is not None:
        yield f"As those who asked for it count {template(rules.requester)} too."
    if rules.steps:
        yield f"Whoever answered {names(rules.steps)} may not answer."
    if rules.delegate in _DELEGATED:
        yield _DELEGATED[rules.delegate]
    yield f"People are asked, and answer, by {listed(work.ways)}."
    if work.priority is not None:
        yield f"Among other work it has the priority {template(work.priority)}."


def _audience(audience: Audience) -> str:
    people = template(audience.people) if audience.people is not None else ""
    roles = f"the {'roles' if len(audience.roles) > 1 else 'role'} {names(audience.roles, 'or')}"
    if people and audience.roles:
        return f"{people}, those of them who have {roles}"
    return people or (f"people who have {roles}" if audience.roles else "everybody")


def _answers(work: WorkDefinition) -> Iterator[str]:
    yield f"They may answer {names((outcome.name for outcome in work.outcomes), 'or')}."
    for outcome in work.outcomes:
        if outcome.needs > 1:
            yield f"{quoted(outcome.name)} counts when {outcome.needs} different people have answered so."
    if work.otherwise:
        yield f"When no answer can get enough people any more, it is {quoted(work.otherwise)}."
    if work.rules.open_votes:
        yield "They see what others have answered."
    if not work.is_voted:
        if work.lease is None:
            yield "Whoever takes it on has it until they give it back."
        else:
            yield f"Whoever takes it on has it for {interval(work.lease)} after each thing they do with it."
    if not work.prototype.outputs:
        yield f"It gives {an(work.answer_name)} with the answer."


def _field(field: FormField) -> str:
    label = f" ({quoted(field.label)})" if field.label != field.name else ""
    facts = [f"{quoted(field.name)}{label}, is {_TYPES[field.type]}"]
    if field.list:
        facts.append("of which there may be several")
    if field.options is not None:
        facts.append(f"one of {template(field.options)}")
    if field.match is not None:
        facts.append(f"which is {element_phrase(field.match)}")
    facts += [f"{field.least} or more"] if field.least else []
    facts += [f"{field.most} or less"] if field.most else []
    facts += [f"of at most {counted(field.length, 'character')}"] if field.length is not None else []
    facts += [f"which fits {verbatim(field.pattern)}"] if field.pattern else []
    facts += [f"at first {template(field.default)}"] if field.default is not None else []
    if field.required:
        facts.append(f"which must be filled in for {names(sorted(field.required), 'or')}")
    return ", ".join(facts)


# --- in time ----------------------------------------------------------------------------------------------


def _in_time(work: WorkDefinition) -> Iterator[Sentence]:
    reminder = work.reminder
    if reminder is not None:
        text = f"After {interval(reminder.after)} without an answer they are reminded"
        if reminder.every is not None:
            text += f", and again {every(reminder.every)}"
        many = "until they answer" if reminder.times is None else f"{times(reminder.times)} in all"
        yield Sentence(f"{text}, {many}.", work.line)
    for escalation in work.escalations:
        place = "in place of those before" if escalation.instead else "beside those before"
        text = (
            f"After {interval(escalation.after)} it is offered to {_audience(escalation.audience)}, {place}."
        )
        yield Sentence(text, escalation.line)
    if work.deadline is not None:
        yield Sentence(_deadline(work.deadline), work.deadline.line)
    else:
        yield Sentence("It waits for an answer for as long as it takes.", work.line)


def _deadline(deadline: Deadline) -> str:
    parts = [f"after {interval(deadline.after)}"] if deadline.after is not None else []
    parts += [f"at the date {template(deadline.at)}"] if deadline.at is not None else []
    when = f"If no person has answered {listed(parts, 'or')},"
    if not deadline.outcome:
        return f"{when} it has failed: its time is over."
    fields = [f"{quoted(name)}: {names(values)}" for name, values in deadline.fields.items()]
    filled = f" ({'; '.join(fields)})" if fields else ""
    return f"{when} the answer is {quoted(deadline.outcome)}{filled}."


def _errors(work: WorkDefinition) -> Iterator[str]:
    yield f"It can fail in these ways: {listed(work.errors, 'or')}."

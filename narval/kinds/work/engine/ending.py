"""The values of an answer, checked before it is recorded (P42, P43), and the ends of an item: answered,
refused by all, expired, withdrawn, given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from lxml import etree

from narval.core.definitions.people.directory import Right
from narval.core.definitions.suggestions import closest
from narval.core.definitions.wall import in_utc, in_zone
from narval.core.elements.canonical import canonical
from narval.core.elements.element import Element
from narval.core.engines import commands
from narval.core.engines.events import Cancelled, OutputElement, Signalled
from narval.core.engines.outputs import judge
from narval.core.errors import ElementError
from narval.kinds.work.engine.changes import Expired, GivenUp, ItemAnswered, Withdrawn
from narval.kinds.work.engine.decision import NotSoError, WorkDecision, by_whom, escalate
from narval.kinds.work.engine.state import Values, Vote, WorkState
from narval.kinds.work.language.definition import WorkOutcome
from narval.kinds.work.language.fields import FormField

_LARGEST_DRAFT = 65_536
"""The most characters of a draft."""
_LARGEST_FORM = 262_144
"""The most characters of an answer: of all its values together."""


class Misfit(msgspec.Struct, frozen=True):
    """A fault of a value: the field, a message that uses its label, and what was typed."""

    field: str
    message: str
    value: str = ""


def _typed(decision: WorkDecision, values: Mapping[str, Any]) -> tuple[Values, list[Misfit]]:
    """Texts as they were typed, by field, and the faults of the others. Raises NotSoError for too many."""
    fields, typed, wrong = decision.definition.fields, dict[str, tuple[str, ...]](), []
    if _size(values) > _LARGEST_FORM:
        raise bad_fields([Misfit("", f"an answer has at most {_LARGEST_FORM:,} characters; shorten it")])
    for name, value in values.items():
        texts = value if isinstance(value, list | tuple) else [value]
        if name not in fields:
            there = f"there is no field {name!r:.80}{closest(name[:80], fields)}"
            wrong.append(Misfit(name[:80], there, str(value)[:200]))
        elif not all(isinstance(text, str) for text in texts):
            wrong.append(Misfit(name, f"{fields[name].label}: expected text", str(value)[:200]))
        else:
            typed[name] = tuple(texts)
    return typed, wrong


def _size(values: Mapping[str, Any]) -> int:
    """The characters of a form, and one more for each value."""
    several = (value if isinstance(value, list | tuple) else [value] for value in values.values())
    return sum(map(len, values)) + sum(len(str(text)) + 1 for texts in several for text in texts)


def draft(decision: WorkDecision, values: Mapping[str, Any]) -> Values:
    """The draft of a form, unchanged. Raises NotSoError if it is too long."""
    typed, wrong = _typed(decision, values)
    if wrong:
        raise bad_fields(wrong)
    if sum(len(text) for texts in typed.values() for text in texts) > _LARGEST_DRAFT:
        raise NotSoError("bad-field", f"a draft has at most {_LARGEST_DRAFT:,} characters; shorten it")
    return typed


def checked(decision: WorkDecision, outcome: WorkOutcome, values: Mapping[str, Any]) -> Values:
    """The values of an answer; a field without one has its default. Raises NotSoError for all faults."""
    read_values: Values = {}
    typed, wrong = _typed(decision, values)
    unread = {misfit.field for misfit in wrong}
    for field in decision.definition.fields.values():
        if field.name in unread:
            continue
        texts = typed.get(field.name, decision.state.defaults.get(field.name, ()))
        texts = tuple(text for text in texts if text.strip())
        if not texts and outcome.name in field.required:
            wrong.append(
                Misfit(field.name, f"{field.label}: expected a value, for {outcome.name} requires it")
            )
        if len(texts) > 1 and not field.list:
            wrong.append(Misfit(field.name, f"{field.label}: expected one value, found {len(texts)}"))
            continue
        right = []
        for text in texts:
            try:
                right.append(_read(decision, field, text))
            except ValueError as error:
                expectation, *meant = map(str, error.args)
                message = f"{field.label}: expected {expectation}, found {text!r:.80}{''.join(meant)}"
                wrong.append(Misfit(field.name, message, text[:200]))
        if right:
            read_values[field.name] = tuple(right)
    if wrong:
        raise bad_fields(wrong)
    return read_values


def by_default(decision: WorkDecision, explicit: Values | Mapping[str, tuple[str, ...]]) -> Values:
    """The values of an answer that nobody gave: those in the deadline, and the defaults that fit."""
    defaults: Values = {}
    for field in decision.definition.fields.values():
        values = explicit.get(field.name, decision.state.defaults.get(field.name, ()))
        try:
            defaults[field.name] = tuple(_read(decision, field, text) for text in values)
        except ValueError:
            continue
    return {name: values for name, values in defaults.items() if values}


def _read(decision: WorkDecision, field: FormField, text: str) -> str:
    """A value. Raises ValueError with what was expected, and perhaps a suggestion."""
    value = field.read(text, decision.state.options.get(field.name, ()))
    if field.type == "person" and decision.people.person(value) is None:
        names = [person.name for person in decision.people.people]
        raise ValueError("the name of a person", closest(value, names))
    if field.match is not None:
        element = decision.view.element(int(value))
        bound = field.match.bind({})
        if element is None or not any(True for _ in decision.view.among((int(value),), bound, None)):
            raise ValueError(f"the number of an element that fits {field.match.text}")
    return value


def bad_fields(wrong: Iterable[Misfit]) -> NotSoError:
    """The problem of wrong values: a sentence for all of them, and each as data."""
    misfits = list(wrong)
    detail = msgspec.json.encode(misfits).decode()
    return NotSoError("bad-field", "; ".join(misfit.message for misfit in misfits), detail)


# --- ends ------------------------------------------------------------------------------------------------


def answer(decision: WorkDecision, event: Signalled, right: Right, outcome: str, fields: Values) -> None:
    """End an item with a person's answer, which is checked before anything is recorded (P13). Raises
    NotSoError.
    """
    way = event.act.way if event.act is not None else ""
    element = _element(decision, outcome, event.by, way, fields)
    eid = _enter(decision, element)
    decision.change(ItemAnswered(**by_whom(event, right), outcome=outcome, fields=fields, answer=eid))
    report(decision, (eid,))


def end_by_votes(decision: WorkDecision, outcome: str, votes: Iterable[Vote]) -> None:
    """End an item that enough people have answered; or, without votes, one that can no longer be decided."""
    by = " ".join(vote.by for vote in votes)
    _end_by_rule(decision, outcome, by, {})


def end_by_deadline(decision: WorkDecision) -> None:
    """End an item whose deadline has come: by its default, or expired."""
    deadline, state = decision.definition.deadline, decision.state
    assert deadline is not None, state
    if deadline.outcome:
        _end_by_rule(decision, deadline.outcome, "", by_default(decision, deadline.fields))
        return
    message = f"no person answered {decision.definition.full_name} in time: {state.title}"
    error = decision.add_error_element("expired", message, inputs=decision.given())
    decision.change(Expired(decision.event.at, error))
    report(decision, ())


def _end_by_rule(decision: WorkDecision, outcome: str, by: str, fields: Values) -> None:
    try:
        element = _element(decision, outcome, by, "", fields)
    except NotSoError as error:
        give_up(decision, error.failure.kind, f"the answer {outcome} is refused: {error}")
        return
    eid, at = _enter(decision, element), decision.event.at
    decision.change(ItemAnswered(at, by, outcome=outcome, fields=fields, answer=eid, default=not by))
    report(decision, (eid,))


def end_if_nobody_is_left(decision: WorkDecision) -> None:
    """End an item as refused if nobody is left who may answer, after all escalations are taken (P23)."""
    state, definition = decision.state, decision.definition
    while not decision.eligible():
        if state.level >= len(definition.escalations):
            people = ", ".join(state.refused)
            message = (
                f"no person is left to answer {definition.full_name}: refused by {people}: {state.title}"
            )
            give_up(decision, "refused", message, "refused")
            return
        escalate(decision)


def withdraw(decision: WorkDecision, event: Cancelled) -> None:
    """End a cancelled item; its claimant, and the people written to, are told."""
    state = decision.state
    claimant = (state.claim.by,) if state.claim is not None else ()
    people = tuple(dict.fromkeys((*claimant, *state.notified)))
    whom = f" by {event.by}" if event.by else ""
    reason = f": {event.reason}" if event.reason else ""
    message = f"{decision.definition.full_name} was withdrawn{whom}{reason}"
    error = decision.add_error_element("withdrawn", message, inputs=decision.given())
    decision.change(Withdrawn(event.at, event.reason, event.by, event.actor, people, error))
    report(decision, ())


def give_up(decision: WorkDecision, kind: str, message: str, status: str = "failed") -> None:
    """End an item with an error of this kind."""
    error = decision.add_error_element(kind, message, inputs=decision.given())
    decision.change(GivenUp(decision.event.at, status, error))
    report(decision, ())


def report(decision: WorkDecision, result: tuple[int, ...]) -> None:
    """Report the end of an item to its caller, which gets the answer, or the error."""
    if decision.state.wake:
        decision.command(commands.CancelTimer(decision.state.wake))
    error = decision.state.error
    decision.report_end(result or ((error,) if error is not None else ()))


def over(state: WorkState, zone: str) -> str:
    """The end of an item, for a person who comes too late; its moment is given in a zone."""
    ended = f"it is {state.status}"
    whom = f" by {state.ended_by}" if state.ended_by else ""
    answered = f": {state.outcome}" if state.outcome else ""
    why = f" ({state.ended_why})" if state.ended_why else ""
    at = f" since {in_zone(state.ended, zone)}" if state.ended is not None else ""
    return f"{ended}{whom}{at}{answered}{why}; nothing more can be done"


def _element(decision: WorkDecision, outcome: str, by: str, way: str, fields: Values) -> bytes:
    """The answer as bytes that fit its schema and the output. Raises NotSoError."""
    definition = decision.definition
    try:
        xml = _answer_element(decision, outcome, by, way, fields)
    except ElementError as error:
        raise bad_fields([Misfit("", f"this answer can be no element: {error.message}")]) from None
    if definition.prototype.outputs:
        fault = judge(definition.prototype, (OutputElement(xml),), decision.view).fault
    else:
        fault = decision.view.schema_fault(xml) or ""
    if fault:
        raise bad_fields([Misfit("", f"this answer does not fit: {fault}")])
    return xml


def _enter(decision: WorkDecision, xml: bytes) -> int:
    return decision.add(Element(0, xml), inputs=decision.given())


def _answer_element(decision: WorkDecision, outcome: str, by: str, way: str, fields: Values) -> bytes:
    """The answer to an item; each value is the text of an element. Raises ElementError."""
    state = decision.state
    root = etree.Element(
        decision.definition.answer_name, outcome=outcome, by=by, at=in_utc(decision.event.at)
    )
    if way:
        root.set("way", way)
    root.set("work", str(state.eid))
    if not by:
        root.set("default", "yes")
    _add(root, fields)
    for vote in state.votes.values():
        node = etree.SubElement(root, "vote", outcome=vote.outcome, by=vote.by, at=in_utc(vote.at))
        if vote.way:
            node.set("way", vote.way)
        _add(node, vote.fields)
    return canonical(root)


def _add(root: etree._Element, fields: Values) -> None:
    for name, values in fields.items():
        for value in values:
            etree.SubElement(root, name).text = value

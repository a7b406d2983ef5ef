"""Offering of an item: what it shows, to whom, until when (P9–P11, P17, P30, P34)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from narval.core.definitions.appointment import read_date
from narval.core.definitions.people.directory import Directory
from narval.core.definitions.reading.values import TextTemplate
from narval.core.definitions.suggestions import closest
from narval.core.elements.element import Element
from narval.core.engines.assignment import Slot, assign
from narval.core.engines.candidates import CandidateSearch
from narval.core.engines.decision import Inputs
from narval.core.engines.events import HeldCalls, Started
from narval.core.engines.view import View
from narval.core.errors import ElementError
from narval.kinds.work.engine import texts
from narval.kinds.work.engine.changes import Asked, Offered
from narval.kinds.work.engine.decision import LAST_MOMENT, NotSoError, WorkDecision, after

Bindings = Mapping[str, Sequence[Element]]
"""The elements of each input, by the id that texts use for them."""


def offer(decision: WorkDecision, event: Started) -> None:
    """Offer an item. Raises NotSoError, whose kind says why it cannot be offered (P82)."""
    decision.change(Asked(event.at, event.elements, event.caller, event.attempt))
    decision.add_to_context(event.elements)
    inputs = _inputs(decision, event)
    taken = tuple(eid for _, eids in inputs for eid in eids)
    decision.add_to_context(tuple(eid for eid in taken if eid not in event.elements))
    bindings = {
        name: [element for eid in eids if (element := decision.view.element(eid))] for name, eids in inputs
    }
    try:
        change = _offered(decision, inputs, taken, bindings)
    except ElementError as error:
        raise NotSoError("bad-text", f"what is asked cannot be shown: {error}") from None
    decision.change(change)
    if not change.requesters and decision.definition.rules.excludes_requester:
        raise NotSoError("no-requester", "it is not known who asked for this, and the asker may not answer")


def _offered(decision: WorkDecision, inputs: Inputs, taken: tuple[int, ...], bindings: Bindings) -> Offered:
    definition, at = decision.definition, decision.event.at
    title = texts.one_line(definition.title.filled(bindings, decision.view.zone))
    if not title or len(title) > texts.LONGEST_TITLE:
        expectation = f"a title of 1 to {texts.LONGEST_TITLE} characters"
        raise NotSoError(
            "bad-text", f"expected {expectation}, got {len(title):,}: {texts.cut_title(title)!r}"
        )
    description = _filled(decision, definition.description, bindings).strip()
    caller = decision.state.caller
    if caller is not None and caller.held is not None and caller.held.question:
        description = "\n".join(filter(None, (title, description)))
        title = texts.cut_title(caller.held.question)
    options = {
        name: tuple(dict.fromkeys(field.options.listed(bindings, decision.view.zone)))
        for name, field in definition.fields.items()
        if field.options is not None
    }
    defaults = dict(_defaults(decision, bindings))
    calls, elements_shown, called_with = _calls(decision, bindings)
    before = list(_answered_before(decision))
    text = texts.text_of_item(
        definition, title, description, elements_shown, calls, defaults, options, before
    )
    if (size := len(text.encode())) > texts.MOST_BYTES:
        why = f"expected a text of at most {texts.MOST_BYTES:,} bytes, got {size:,}"
        raise NotSoError("too-much-to-show", f'{why}; show inputs by their digest: <show inputs="digest"/>')
    people = tuple(_people(decision, bindings))
    caused = requesters(decision.view, decision.state.eid, (*taken, *called_with))
    named = _known(decision, definition.rules.requester, bindings, "requester")
    asking = (*caused.people, *named)
    if definition.rules.excludes_requester and definition.rules.requester is None and caused.unknown:
        raise NotSoError("no-requester", f"{caused.unknown}, and the asker may not answer")
    roles, out = definition.audience.roles, decision.exclusions(asking)
    return Offered(
        at,
        inputs,
        title,
        text,
        texts.digest(text),
        tuple(decision.people.eligible(people[0], roles, out, decision.day)),
        people=people,
        requesters=tuple(dict.fromkeys(asking)),
        directory=decision.people.digest,
        deadline=_deadline(decision, bindings),
        priority=_priority(decision, definition.priority, bindings),
        defaults=defaults,
        options=options,
    )


def _calls(decision: WorkDecision, bindings: Bindings) -> tuple[list[str], Bindings, Collection[int]]:
    """The lines about calls that wait for the item, the inputs that they do not show already, and the
    elements that the calls are given.
    """
    caller, view = decision.state.caller, decision.view
    held = caller.held if caller is not None else None
    if caller is None or held is None:
        return [], bindings, ()
    says = list(_says(view.definition(held.kind, held.name), held, decision))
    lines = list(texts.lines_of_calls(decision.definition, caller, held, says, view.element))
    there = {eid for _, inputs in held.calls for _, eids in inputs for eid in eids}
    others = {
        name: [element for element in elements if element.eid not in there]
        for name, elements in bindings.items()
    }
    return lines, others, there


def _says(action: Any, held: HeldCalls, decision: WorkDecision) -> Iterator[str]:
    """An action's description of each of its calls, filled with the elements of the call."""
    for _, inputs in held.calls if action is not None and action.describe is not None else ():
        values = {
            name: [element for eid in eids if (element := decision.view.element(eid))]
            for name, eids in inputs
        }
        yield action.describe.filled(values, decision.view.zone)


def _filled(decision: WorkDecision, template: TextTemplate | None, bindings: Bindings) -> str:
    return template.filled(bindings, decision.view.zone) if template is not None else ""


# --- what it is about -----------------------------------------------------------------------------------


def _answered_before(decision: WorkDecision) -> Iterator[Element]:
    """The answers of earlier items of the same step, which the caller has gone back to."""
    view, caller = decision.view, decision.state.caller
    for element in map(view.element, decision.state.first if caller is not None else ()):
        origin = element.origin if element is not None else None
        before = view.caller(origin.run) if origin is not None else None
        if element is None or before is None or caller is None:
            continue
        if (before.run, before.step) == (caller.run, caller.step):
            yield element


def _inputs(decision: WorkDecision, event: Started) -> Inputs:
    """The elements to show: those that the caller gave, else the nearest that fit."""
    declared = decision.definition.prototype.inputs
    if event.inputs or not declared:
        return event.inputs
    before = {element.eid for element in _answered_before(decision)}
    started_with = tuple(eid for eid in event.elements if eid not in before)
    near = (started_with, *(event.caller.nearby if event.caller is not None else ()))
    search = CandidateSearch(decision.view, decision.state.eid, near)
    name = decision.definition.full_name
    scopes = {slot.id: (name, "", slot.id) if slot.use else None for slot in declared}
    slots = [
        Slot(
            slot.id,
            search.ranks(slot.condition.bind({}), scopes[slot.id], newest=slot.newest),
            slot.optional,
            slot.list,
        )
        for slot in declared
    ]
    assigned = assign(slots)
    if assigned.missing:
        condition_of = {slot.id: slot.condition.text for slot in declared}
        why = "; ".join(f"nothing in memory fits input {id} ({condition_of[id]})" for id in assigned.missing)
        raise NotSoError("input-missing", why)
    for slot in declared:
        if eids := assigned.given.get(slot.id):
            decision.use_input(scopes[slot.id], False, eids)
    return tuple((slot.id, assigned.given[slot.id]) for slot in declared if assigned.given.get(slot.id))


def _defaults(decision: WorkDecision, bindings: Bindings) -> Iterator[tuple[str, tuple[str, ...]]]:
    for field in decision.definition.fields.values():
        if field.default is not None:
            default, zone = field.default, decision.view.zone
            texts_of = default.listed(bindings, zone) if field.list else [default.filled(bindings, zone)]
            texts = tuple(text for text in texts_of if text.strip())
            if texts:
                yield field.name, texts


# --- who ------------------------------------------------------------------------------------------------


def _people(decision: WorkDecision, bindings: Bindings) -> Iterator[tuple[str, ...]]:
    """The people named for the work, and for each escalation. Raises NotSoError for an unknown name."""
    definition = decision.definition
    for audience in (definition.audience, *(escalation.audience for escalation in definition.escalations)):
        yield tuple(_known(decision, audience.people, bindings, "people"))


def _known(
    decision: WorkDecision, template: TextTemplate | None, bindings: Bindings, attribute: str
) -> Iterator[str]:
    if template is None:
        return
    names = [name for text in template.listed(bindings, decision.view.zone) for name in text.split()]
    if not names:
        raise NotSoError("unknown-person", f"{attribute}: {template.text} names no person")
    for name in names:
        if decision.people.person(name) is None:
            suggestion = closest(name, [person.name for person in decision.people.people])
            raise NotSoError("unknown-person", f"{attribute}: there is no person {name!r:.40}{suggestion}")
        yield name


# --- when -----------------------------------------------------------------------------------------------


def _deadline(decision: WorkDecision, bindings: Bindings) -> float | None:
    deadline = decision.definition.deadline
    if deadline is None:
        return None
    if deadline.after is not None:
        return after(decision, deadline.after, decision.event.at)
    text = _filled(decision, deadline.at, bindings).strip()
    try:
        return min(read_date(text, decision.view.zone), LAST_MOMENT)
    except ValueError:
        expectation = "a date and time such as 2026-11-25T10:00+01:00 or 2026-11-25T10:00, or a date"
        raise NotSoError("bad-deadline", f"deadline: expected {expectation}, got {text!r:.80}") from None


def _priority(decision: WorkDecision, template: TextTemplate | None, bindings: Bindings) -> float:
    """The number that an expression gives; 0 if it gives none."""
    try:
        number = float(_filled(decision, template, bindings) or 0)
    except ValueError:
        return 0.0
    return number if isfinite(number) else 0.0


MOST_ORIGINS = 10_000
"""The most elements whose origin is examined; if there are more, it is unknown who asked."""


class Requesters(NamedTuple):
    """The people who asked; `unknown` says why there may be others, and is "" if there are none."""

    people: tuple[str, ...]
    unknown: str = ""


def requesters(view: View, run: int, eids: Iterable[int]) -> Requesters:
    """The people who started the top-level run, or added an element that is shown, or one it was made from.

    An origin that is forgotten, or that another agent sent without a name, is unknown.
    """
    names = dict.fromkeys(_names(view.people, view.started_by(run)))
    pending, seen, unknown = list(eids), set[int](), ""
    while pending and not unknown:
        eid = pending.pop()
        if eid in seen:
            continue
        seen.add(eid)
        element = view.element(eid)
        origin = element.origin if element is not None else None
        if element is None:
            unknown = f"element {eid}, from which this came, is forgotten"
        elif len(seen) > MOST_ORIGINS:
            unknown = f"this came from more than {MOST_ORIGINS:,} elements"
        elif origin is not None:
            names.update(dict.fromkeys(_names(view.people, origin.by, origin.actor)))
            pending += origin.inputs
            if origin.agent and not origin.by:
                unknown = f"element {eid} was sent by the agent {origin.agent}, which did not say for whom"
    return Requesters(tuple(names), unknown)


def _names(people: Directory, by: str, actor: str = "") -> Iterator[str]:
    """The people that a recorded name can mean: the name may be a login, or an actor may have
    acted for it.
    """
    if by:
        yield by
        person = None if actor else people.by_login(by)
        if person is not None:
            yield person.name

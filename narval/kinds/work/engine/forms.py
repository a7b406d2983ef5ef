"""The values of a form, checked in the engine (P42, P43)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from narval.core.definitions.suggestions import closest
from narval.kinds.work.engine.decision import NotSoError, WorkDecision
from narval.kinds.work.engine.state import Values
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


def given_values(decision: WorkDecision, values: Mapping[str, Any]) -> Values:
    """Texts as they were typed, by field. Raises NotSoError for an unknown field."""
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
    if wrong:
        raise bad_fields(wrong)
    return typed


def _size(values: Mapping[str, Any]) -> int:
    """The characters of a form, and one more for each value."""
    several = (value if isinstance(value, list | tuple) else [value] for value in values.values())
    return sum(map(len, values)) + sum(len(str(text)) + 1 for texts in several for text in texts)


def draft(decision: WorkDecision, values: Mapping[str, Any]) -> Values:
    """The draft of a form, unchanged. Raises NotSoError if it is too long."""
    typed = given_values(decision, values)
    if sum(len(text) for texts in typed.values() for text in texts) > _LARGEST_DRAFT:
        raise NotSoError("bad-field", f"a draft has at most {_LARGEST_DRAFT:,} characters; shorten it")
    return typed


def checked(decision: WorkDecision, outcome: WorkOutcome, typed: Values) -> Values:
    """The values of an answer; a field that was not given has its default. Raises NotSoError."""
    found: Values = {}
    wrong: list[Misfit] = []
    for field in decision.definition.fields.values():
        texts = typed.get(field.name, decision.state.defaults.get(field.name, ()))
        texts = tuple(text for text in texts if text.strip())
        if not texts and outcome.name in field.required:
            wrong.append(
                Misfit(field.name, f"{field.label}: expected a value, for {outcome.name} requires it")
            )
        if len(texts) > 1 and not field.list:
            wrong.append(Misfit(field.name, f"{field.label}: expected one value, found {len(texts)}"))
            continue
        values = []
        for text in texts:
            try:
                values.append(_read(decision, field, text))
            except ValueError as error:
                expectation, *meant = map(str, error.args)
                message = f"{field.label}: expected {expectation}, found {text!r:.80}{''.join(meant)}"
                wrong.append(Misfit(field.name, message, text[:200]))
        if values:
            found[field.name] = tuple(values)
    if wrong:
        raise bad_fields(wrong)
    return found


def by_default(decision: WorkDecision, explicit: Values | Mapping[str, tuple[str, ...]]) -> Values:
    """The values of an answer that nobody gave: those in the deadline, and the defaults that fit."""
    found: Values = {}
    for field in decision.definition.fields.values():
        values = explicit.get(field.name, decision.state.defaults.get(field.name, ()))
        try:
            found[field.name] = tuple(_read(decision, field, text) for text in values)
        except ValueError:
            continue
    return {name: values for name, values in found.items() if values}


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

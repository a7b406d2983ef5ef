"""The vocabulary of work, as a table: elements, attributes and the readers of their values."""

from __future__ import annotations

from typing import get_args

from narval.core.definitions.appointment import Appointment
from narval.core.definitions.people.directory import WAYS
from narval.core.definitions.reading.times import interval
from narval.core.definitions.reading.vocabulary import (
    COMMON,
    Attribute,
    Word,
    Words,
    anything,
    integer,
    matching,
    name,
    one_of,
    seconds,
    yes_no,
)
from narval.core.definitions.suggestions import closest
from narval.kinds.work.language.definition import ACTS, OF_STEP, REQUESTER
from narval.kinds.work.language.fields import FieldType

_TAKEN = frozenset({*ACTS, "default"})

word = matching(r"[a-z][a-z0-9-]{0,63}", "a word of small letters, digits and -, which begins with a letter")
"""The name of a role, or of an outcome that is defined elsewhere."""

field_name = matching(
    r"(?![Xx][Mm][Ll]|vote$)[A-Za-z_][A-Za-z0-9_-]{0,63}",
    "a name of letters, digits, _ and -, such as comment, and not vote",
)


_field_type = one_of(*get_args(FieldType))
_OF_MODELS = {"yes-no": "boolean", "number": "decimal"}
"""The types of fields, by their names in answers of language models."""


def field_type(text: str) -> str:
    """The type of a field."""
    if text in _OF_MODELS:
        raise ValueError(f"{_OF_MODELS[text]}, as it is called in a form")
    return _field_type(text)


def outcome(text: str) -> str:
    """The name of an outcome."""
    if text in _TAKEN:
        raise ValueError(f"a name that is not an act's (acts: {', '.join(sorted(_TAKEN))})")
    return word(text)


def words(text: str) -> tuple[str, ...]:
    """At least one word, separated by blanks."""
    if not text.split():
        raise ValueError("a word, or several with blanks between them")
    return tuple(dict.fromkeys(text.split()))


def roles(text: str) -> tuple[str, ...]:
    """Names of roles, separated by blanks."""
    return tuple(map(word, words(text)))


def exclusions(text: str) -> tuple[str, ...]:
    """The rules of who may not answer."""
    names = words(text)
    for rule in names:
        if rule != REQUESTER and not (rule.startswith(OF_STEP) and len(rule) > len(OF_STEP)):
            raise ValueError(f"{REQUESTER}, or {OF_STEP} and the id of a step")
    return names


def ways(text: str) -> tuple[str, ...]:
    """The ways in which people are asked."""
    names = words(text)
    for way in names:
        if way not in WAYS:
            raise ValueError(f"some of {', '.join(WAYS)}", closest(way, WAYS))
    return names


def lease(text: str) -> Appointment | None:
    """The time that a claim lasts; None if the text is empty, for a claim that lasts for ever."""
    return interval(text) if text else None


_AUDIENCE = {"people": Attribute(anything), "roles": Attribute(roles)}

WORDS: Words = {
    **COMMON,
    "work": Word(
        {
            "group": Attribute(name),
            "name": Attribute(name),
            "decay": Attribute(seconds),
            "priority": Attribute(anything),
        },
        (
            "title",
            "description",
            "input",
            "output",
            "for",
            "outcome",
            "field",
            "remind",
            "escalate",
            "deadline",
            "claim",
            "otherwise",
            "show",
            "ways",
        ),
    ),
    "title": Word(),
    "for": Word(
        {
            **_AUDIENCE,
            "not": Attribute(exclusions),
            "requester": Attribute(anything),
            "delegate": Attribute(one_of("eligible", "anyone", "no")),
            "votes": Attribute(one_of("closed", "open")),
        }
    ),
    "outcome": Word({"name": Attribute(outcome, required=True), "needs": Attribute(integer(1))}),
    "field": Word(
        {
            "name": Attribute(field_name, required=True),
            "type": Attribute(field_type),
            "required": Attribute(words),
            "default": Attribute(anything),
            "least": Attribute(anything),
            "most": Attribute(anything),
            "length": Attribute(integer(1)),
            "pattern": Attribute(anything),
            "options": Attribute(anything),
            "match": Attribute(anything),
            "list": Attribute(yes_no),
        }
    ),
    "remind": Word(
        {
            "after": Attribute(interval, required=True),
            "every": Attribute(interval),
            "times": Attribute(integer(1)),
        }
    ),
    "escalate": Word(
        {**_AUDIENCE, "after": Attribute(interval, required=True), "instead": Attribute(yes_no)}
    ),
    "deadline": Word(
        {"after": Attribute(interval), "at": Attribute(anything), "outcome": Attribute(word)}, None
    ),
    "claim": Word({"for": Attribute(lease, required=True)}),
    "otherwise": Word({"outcome": Attribute(word, required=True)}),
    "show": Word({"inputs": Attribute(one_of("text", "digest"), required=True)}),
    "ways": Word({"names": Attribute(ways, required=True)}),
}

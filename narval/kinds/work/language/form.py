"""Fields of forms as they are written; each type has its own attributes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from msgspec.structs import replace

from narval.core.definitions.reading.patterns import Patterns
from narval.core.definitions.reading.values import TextTemplate, template_in
from narval.core.definitions.reading.xml import Entry, Reading
from narval.core.definitions.suggestions import closest
from narval.core.patterns.lexer import ExpressionError
from narval.core.patterns.pattern import Condition
from narval.kinds.work.language.fields import ORDERED, WORDED, FormField, whole

_OF_TYPES: Mapping[str, Container[str]] = {
    "least": ORDERED,
    "most": ORDERED,
    "length": WORDED,
    "pattern": WORDED,
    "options": ("choice",),
    "match": ("element",),
}
"""The types to which an attribute applies."""

ALL = "all"
"""The word of `required` for all outcomes."""

_NEEDED = {"choice": ("options", "the words there are to choose from"), "element": ("match", "a pattern")}
"""The attribute that a type requires."""


def fields_of(
    reading: Reading, patterns: Patterns, work: Entry, outcomes: Mapping[str, Any]
) -> dict[str, FormField]:
    """The fields of work, by name."""
    return reading.each_once(
        work.of("field"), lambda entry: _field(reading, patterns, entry, outcomes), "name"
    )


def _field(reading: Reading, patterns: Patterns, entry: Entry, outcomes: Mapping[str, Any]) -> FormField:
    type = entry.get("type", "string")
    for attribute, types in _OF_TYPES.items():
        if attribute in entry.written and type not in types:
            reading.fault(entry, f"{attribute}: says nothing of a field of type {type}; remove it", attribute)
    needed = _NEEDED.get(type)
    if needed is not None and needed[0] not in entry.written:
        reading.fault(entry, f'a field of type {type} needs {needed[0]}, {needed[1]}; add {needed[0]}="…"')
    match = patterns.of_attribute(entry, "match")
    field = FormField(
        entry.get("name", ""),
        type,
        " ".join(entry.node.text.split()) or entry.get("name", ""),
        _required(reading, entry, outcomes),
        template_in(reading, patterns, entry, "default"),
        length=entry.get("length"),
        options=template_in(reading, patterns, entry, "options"),
        match=None if match is None else Condition((match,)),
        list=entry.get("list", False),
    )
    limits = {name: entry.get(name, "") for name in ("least", "most", "pattern")}
    faults = [_check_limit(reading, entry, field, name) for name in limits if limits[name]]
    return field if any(faults) else _limited(reading, entry, field, limits)


def _required(reading: Reading, entry: Entry, outcomes: Mapping[str, Any]) -> frozenset[str]:
    """The outcomes that need a field; all, yes and no mean all, all and none if no outcome has that name."""
    words = entry.get("required", ())
    if words in ((ALL,), ("yes",)) and words[0] not in outcomes:
        return frozenset(outcomes)
    if words == ("no",) and "no" not in outcomes:
        return frozenset()
    for word in words:
        if word not in outcomes:
            message = f"expected {ALL}, or outcomes, found {word!r}{closest(word, (ALL, *outcomes))}"
            reading.fault(entry, f"required: {message}", "required")
    return frozenset(words)


def _check_limit(reading: Reading, entry: Entry, field: FormField, name: str) -> bool:
    """Record a fault for a limit that is not a value of its type, or for an invalid pattern; True if there is
    one.
    """
    text = entry.get(name)
    try:
        if name == "pattern":
            from narval.core.patterns.regex import regex  # elementpath takes long to import

            regex(whole(text))
        elif field.type in ORDERED:
            field.read(text)
    except ValueError as error:
        reading.fault(entry, f"{name}: expected {error}, found {text!r}", name)
        return True
    except ExpressionError as error:
        reading.fault(entry, f"{name}: {error.message}", name, max(error.offset - len("^(?:"), 0))
        return True
    return False


def _limited(reading: Reading, entry: Entry, field: FormField, limits: Mapping[str, str]) -> FormField:
    """The field with its limits; a constant default must be within them."""
    limited = replace(field, **limits)
    default, options = field.default, field.options
    if default is not None and default.is_plain and field.type not in ("person", "element"):
        choices = _words(options)
        if options is None or choices:
            for text in default.listed({}, "") if field.list else [default.filled({}, "")]:
                try:
                    limited.read(text, choices)
                except ValueError as error:
                    reading.fault(entry, f"default: expected {error}, found {text!r}", "default")
    return limited


def _words(options: TextTemplate | None) -> tuple[str, ...]:
    return tuple(options.listed({}, "")) if options is not None and options.is_plain else ()

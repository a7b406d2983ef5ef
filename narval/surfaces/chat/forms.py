"""Forms at a chat: the fields of an answer to work, asked one after another, each value checked at once.

The input is checked here as the engine will check it, so that mistakes are reported at once. The engine
repeats all checks; only it can look up persons and elements.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from narval.kinds.work.language.fields import FormField
from narval.people.chat.messages import OpenForm

LEAVE, STOP = "-", "cancel"
"""The words that leave a field unchanged, and that end the form without an answer."""

_HINTS = {
    "integer": "a whole number",
    "decimal": "a number such as 12.50 or 12,50",
    "boolean": "yes or no",
    "date": "a date such as 2026-11-25",
    "dateTime": "a date and time such as 2026-11-25T10:00",
    "person": "the name of a person",
    "element": "the number of an element",
}
"""The hints for values of a type."""

NUMBER = re.compile(r"[0-9]{1,3}")
"""The pattern of the number of an outcome."""

Row = Mapping[str, Any]


_BUTTON = re.compile(r"f([0-9]{1,18})\.([0-9]{1,3})\.([0-9]{1,3})(?:@(.+))?")
"""The pattern of a button's data: item, field and choice, and the agent if it is not the home's own."""


class Question(NamedTuple):
    """A question to be sent: its text, and the data and the label of each button."""

    text: str
    buttons: tuple[tuple[str, str], ...] = ()


def outcome_of(word: str, outcomes: Sequence[str]) -> str:
    """The outcome that a word or a number selects; the word itself if there is none."""
    word = word.strip().lower()
    is_number = NUMBER.fullmatch(word) and word not in outcomes and 1 <= int(word) <= len(outcomes)
    return outcomes[int(word) - 1] if is_number else word


def numbered(outcomes: Sequence[str]) -> str:
    """The outcomes with their numbers, in a line."""
    return ", ".join(f"{number} {outcome}" for number, outcome in enumerate(outcomes, 1))


def next_field(fields: Sequence[Row], form: OpenForm) -> Row | None:
    """The first field not asked yet; None if all were asked."""
    return next((row for row in fields if row["name"] not in form.values), None)


def question(fields: Sequence[Row], row: Row, form: OpenForm, trouble: str = "") -> Question:
    """The question for the value of a field; `trouble` is what was wrong with the last value."""
    label = row["label"]
    lines = [*([trouble] if trouble else ()), label if label.endswith("?") else f"{label}?"]
    choices = _choices(row)
    lines += [f"{number} {word}" for number, word in enumerate(choices, 1)]
    if (hint := _HINTS.get(row["type"])) and not choices:
        lines.append(f"Write {hint}.")
    if row["list"]:
        lines.append("Write one value on each line.")
    default = ", ".join(row["default"])
    if default:
        lines.append(f"Write {LEAVE} for {default}.")
    elif form.outcome not in row["required"]:
        lines.append(f"Write {LEAVE} to leave it out.")
    lines.append(f"Write {STOP} to answer nothing.")
    at, item = [field["name"] for field in fields].index(row["name"]), form.asked.item
    end = f"@{form.asked.agent}" if form.asked.agent else ""
    buttons = ((f"f{item}.{at}.{number}{end}", word) for number, word in enumerate(choices, 1))
    return Question("\n".join(lines), tuple(buttons))


def value_of_button(fields: Sequence[Row], form: OpenForm, data: str) -> str | None:
    """The value that a button of a question selects; None for a button of another question or item."""
    match = _BUTTON.fullmatch(data)
    if match is None or (int(match[1]), match[4] or "") != (form.asked.item, form.asked.agent):
        return None
    at, number = int(match[2]), int(match[3])
    if at >= len(fields) or fields[at]["name"] != form.field:
        return None
    choices = _choices(fields[at])
    return choices[number - 1] if 1 <= number <= len(choices) else None


def values_of(row: Row, outcome: str, text: str) -> list[str]:
    """The values that a person wrote for a field. Raises ValueError, which says what is wrong."""
    if text.strip() == LEAVE:
        if outcome in row["required"] and not row["default"]:
            raise ValueError(f"{row['label']}: expected a value, for {outcome} requires it")
        return []
    field, choices = _field(row), _choices(row)
    texts = [line for line in text.splitlines() if line.strip()] if row["list"] else [text.strip()]
    values = []
    for line in texts:
        typed = line.strip() if field.type != "text" else line
        if typed not in choices and typed.isdecimal() and 1 <= int(typed) <= len(choices):
            typed = choices[int(typed) - 1]
        try:
            field.read(typed, tuple(row["options"]))
        except ValueError as error:
            raise ValueError(f"{row['label']}: expected {error.args[0]}, found {typed!r:.80}") from None
        values.append(typed)
    if not values:
        raise ValueError(f"{row['label']}: expected a value")
    return values


def given(form: OpenForm) -> dict[str, list[str]]:
    """The values of a form for an answer: a field that was left unchanged has its default."""
    return {name: values for name, values in form.values.items() if values}


def _choices(row: Row) -> list[str]:
    """The words of a field that can be chosen by number."""
    return ["yes", "no"] if row["type"] == "boolean" else list(row["options"])


def _field(row: Row) -> FormField:
    """A field as the operation `work_item` describes it."""
    limits = {name: row[name] for name in ("least", "most", "length", "pattern") if row.get(name)}
    return FormField(row["name"], row["type"], row["label"], list=row["list"], **limits)

"""The sentences in which a kind describes a run: one for each change of interest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

Words = str | Sequence[str | float]
"""A sentence for people: a text, or a list of pieces; numbers are moments, formatted by surfaces."""


def joined(parts: Iterable[Words], between: str) -> list[str | float]:
    """The pieces of several sentences, joined into one."""
    pieces = list[str | float]()
    for words in parts:
        pieces += [between] * bool(pieces)
        pieces += [words] if isinstance(words, str) else words
    return pieces


class Fact(msgspec.Struct, frozen=True):
    """The sentence for a change of a run."""

    words: str
    """The sentence. `{field}` stands for a field of the change; `{field:element}`, `{field:run}`,
    `{field:moment}`, `{field:person}` and `{field:watch}` for what the field names; `{field:brief}` for its
    beginning. Text in `[` and `]` is left out if one of its fields is empty.
    """
    part: str = ""
    """The field that names the part of the run, or its `call`, `wake` or `token`; "" if the sentence is about
    the run.
    """
    word: str = ""
    """The type of part, if it is not the name of the field."""
    begins: bool = False
    """True if the change enters the part, also for the second time."""


Story = Mapping[str, Fact]
"""The sentences of a kind, by the name of the change. Changes without one do not interest people."""

ON_EVENTS: Story = {
    "CallApproved": Fact("Its call was agreed to, by {work}.", part="call"),
    "Cancelled": Fact("It was cancelled[ by {by:person}][: {reason}]."),
    "Redefined": Fact("It goes on with version {version:brief}, for it has taken nothing yet."),
    "Migrated": Fact("It goes on with version {version:brief}[ by {by:person}]."),
    "MigratedBack": Fact("It goes back to version {version:brief}[ by {by:person}]."),
    "SignalledBy": Fact("{by:person} sent it the signal {name}."),
    "Unreadable": Fact("This cannot be read: {message}."),
}
"""The sentences for events, the same for all kinds. The start of a run and its calls have longer ones."""

ON_QUIET_EVENTS: Story = {
    "Matched": Fact("{eid:element} came."),
    "TimerFired": Fact("A moment came.", part="wake"),
    "Signalled": Fact("Signal {name} came."),
}
"""The sentences for events that have no other, and that had no effect of interest."""

FIELDS = re.compile(r"([^{]+)|\{(\w+)(?::(\w+))?\}")
"""The pattern for a text in the words of a fact, or for a field with its form."""
_SEGMENTS = re.compile(r"(\[[^\]]*\])|([^\[]+)")


def filled(words: str, valued: Callable[[str, str], list[Any]]) -> list[Any]:
    """The pieces of a sentence: its words, with each field replaced by what `valued` gives for it and its
    form.
    """
    said: list[Any] = []
    for optional, fixed in _SEGMENTS.findall(words):
        fields = FIELDS.findall(optional[1:-1] or fixed)
        pieces = [[text] if text else valued(field, form) for text, field, form in fields]
        if fixed or all(pieces):
            said += chain.from_iterable(pieces)
    return said


def story_of(engine: object) -> Story:
    """The sentences of an engine; empty if it has none."""
    story: Story = getattr(engine, "story", {})
    return story


def part_word_of(engine: object) -> str:
    """The type of parts that make calls in an engine's runs: step, state, node."""
    word: str = getattr(engine, "part_word", "part")
    return word

"""The rows by which a kind says in sentences what happened in a run: one for each change of interest."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Fact(msgspec.Struct, frozen=True):
    """A change of a run in a sentence."""

    words: str
    """The sentence. `{field}` stands for a field of the change, `{field:element}`, `{field:run}`,
    `{field:moment}` and `{field:watch}` for what it names, `{field:brief}` for its beginning; what is in `[`
    and `]` is left out if one of its fields is empty.
    """
    part: str = ""
    """The field that names the part of the run, or the `call` or `token` of one; "": it is about the run."""
    word: str = ""
    """The sort of part, where it is not the name of the field."""
    begins: bool = False
    """True if it enters the part, again if it was entered before."""


Story = Mapping[str, Fact]
"""The sentences of a kind, by the name of the change. Changes that are not in it are of no interest to
people.
"""


def story_of(engine: object) -> Story:
    """The sentences of an engine; none where it has none."""
    story: Story = getattr(engine, "story", {})
    return story


def part_word_of(engine: object) -> str:
    """The sort of the parts of an engine's runs that make calls: step, state, node."""
    word: str = getattr(engine, "part_word", "part")
    return word

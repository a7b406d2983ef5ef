"""The page of the language that models are shown, as `narval propose` shows it."""

from __future__ import annotations

from collections.abc import Iterator

from narval.trials.propose.language import language_page

PATH = "reference/language-for-models.md"

HEAD = """\
# The language for models

Made by `python -m tests.house.pages`; a test compares. This is the page that `narval propose` shows to a
[language model](proposals.md), with what the home has beside it. It is short on purpose: less than 8,000
tokens, of three bytes each. The pages on [recipes](recipe.md), [patterns](patterns.md), [work](work.md),
[tasks](tasks.md), [dataflows](dataflow-language.md), [automata](automaton.md) and [processes](process.md)
say all of it.
"""


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    first, _, rest = language_page().partition("\n")
    assert first.startswith("# ")
    yield from rest.split("\n")

"""Titles of elements: a few words by which a person recognises one among others."""

from __future__ import annotations

from collections.abc import Mapping

NAMING = ("subject", "title", "name", "summary", "what")
"""The attributes that say what an element is about, best first."""

FROM_WHOM = ("from-name", "from", "by", "author", "feed")
"""The attributes that say whom it is from, best first."""

DECIDED = ("verdict", "outcome")
"""The attributes that say how it was decided: what a person looks for first."""

MOST = 80
"""The most characters of each of its words."""


def title_of(attributes: Mapping[str, str]) -> str:
    """Compose from its attributes how it was decided, what an element is about and whom it is from; if none
    says what it is about, add its first attributes.

    An element without attributes has no title.
    """
    about = next((attributes[name] for name in NAMING if attributes.get(name)), "")
    whom = next((attributes[name] for name in FROM_WHOM if attributes.get(name)), "")
    decided = next((attributes[name] for name in DECIDED if attributes.get(name)), "")
    words = [word for word in (decided, about, whom) if word]
    if not about:
        named = (decided, whom)
        others = [f"{name} {value}" for name, value in attributes.items() if value and value not in named]
        words = [*words, *others][: 2 + bool(decided)]
    return " · ".join(_cut(" ".join(word.split())) for word in words)


def _cut(words: str) -> str:
    return words if len(words) <= MOST else f"{words[: MOST - 1]}…"

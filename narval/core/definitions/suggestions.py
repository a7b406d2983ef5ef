"""Suggestions: the known word probably intended by an unknown one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_WORDS = 2000
"""The most words that are compared; with more, none is suggested."""


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word that was probably intended."""
    if len(candidates := sorted(set(words))) > MOST_WORDS:
        return None
    matches = difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    return matches[0] if matches else None


def closest(word: str, words: Iterable[str]) -> str:
    """The end of a message: the word that was probably intended, or all words if they are few."""
    candidates = sorted(set(words))
    near = nearest(word, candidates)
    if near is not None:
        return f"; did you mean {near!r}?"
    return f"; there is {', '.join(map(repr, candidates))}" if 0 < len(candidates) <= 12 else ""

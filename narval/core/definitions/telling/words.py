"""Words shared by the descriptions of all kinds: lists, quotations, lengths of time, counts."""

from __future__ import annotations

from collections.abc import Iterable

_UNITS = (("day", 86_400), ("hour", 3_600), ("minute", 60))
_LIKE_CONSONANTS = ("uni", "use", "usa", "eu", "one", "once", "ur")
"""The beginnings of words that start with a vowel but are pronounced with a consonant."""


def quoted(text: str) -> str:
    """A text in quotation marks, on one line."""
    return f'"{on_one_line(text)}"'


def verbatim(text: str) -> str:
    """A text as written, on one line, as code."""
    return f"`{on_one_line(text)}`"


def on_one_line(text: str) -> str:
    """A text on one line, with ⏎ for line breaks."""
    return " ⏎ ".join(line.strip() for line in text.strip().splitlines())


def listed(words: Iterable[str], joint: str = "and") -> str:
    """Words in a list: `a`, `a and b`, `a, b and c`."""
    *before, last = tuple(words) or ("nothing",)
    return f"{', '.join(before)} {joint} {last}" if before else last


def names(words: Iterable[str], joint: str = "and") -> str:
    """Names in quotation marks, in a list."""
    return listed(map(quoted, words), joint)


def an(noun: str) -> str:
    """A noun with its article."""
    vowel = noun[:1].lower() in "aeiou" and not noun.lower().startswith(_LIKE_CONSONANTS)
    return f"{'an' if vowel else 'a'} {noun}"


def counted(count: float, noun: str) -> str:
    """A number of things, in words."""
    return f"{count:,.15g} {noun}" + ("" if count == 1 else "s")


def times(count: int) -> str:
    """A number of times, in words."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def length(seconds: float) -> str:
    """A length of time, exactly: `1 day 9 hours`."""
    parts, left = [], seconds
    for unit, size in _UNITS:
        whole, left = divmod(left, size)
        if whole:
            parts.append(counted(whole, unit))
    if left or not parts:
        parts.append(counted(round(left, 6), "second"))
    return " ".join(parts)


def sentence(text: str) -> str:
    """A text with an initial capital and a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", ":", "?", "!")) else f"{text}."


def first_sentence(text: str) -> str:
    """The first sentence of a description, on one line, without its full stop."""
    words = " ".join(text.split())
    end = words.find(". ")
    return (words if end < 0 else words[:end]).removesuffix(".")

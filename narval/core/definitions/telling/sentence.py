"""Sentences that say what a definition does, as its kind tells them (D1), and the words that all kinds share.

A kind tells in its module `telling` of its language, whose `sentences` takes a definition and the library
with its targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import NamedTuple

from narval.core.definitions.library import Definition, Library, ModuleDefinition, named_by
from narval.core.kinds import KINDS


class Sentence(NamedTuple):
    """A sentence, with its place in the file; a deeper one gives details of the less deep one before it."""

    text: str
    line: int = 1
    column: int = 1
    depth: int = 0


Teller = Callable[[Definition, Library], Iterator[Sentence]]
"""Yield the sentences that describe one definition."""


def tell(definition: Definition, library: Library | None = None) -> list[Sentence]:
    """The sentences that describe a definition: the author's words, then the facts.

    `library` has the descriptions of its targets, and shows whether they act outside.
    """
    row = KINDS.get(definition.kind)
    teller: Teller = import_module(f"{row.language}.telling").sentences if row and row.tells else _declared
    told_of = library if library is not None else Library([definition])
    sentences = list(teller(definition, told_of))
    return [*_description(definition), *sentences, *_through_others(definition, told_of)]


def description_of(definition: Definition) -> str:
    """The description in English if there is one, else in the first language given; "" without any."""
    texts = definition.descriptions
    return texts.get("en") or next(iter(texts.values()), "")


def _description(definition: Definition) -> Iterator[Sentence]:
    """The author's words, unless they are part of what the definition does, and are described there."""
    if not hasattr(definition, "description") and (text := description_of(definition)):
        yield Sentence(f"Its author says: {quoted(text)}", definition.line)


def _through_others(definition: Definition, library: Library) -> Iterator[Sentence]:
    """The sentence about effects outside by definitions that it runs, directly or not."""
    others = [other for other in _reached(definition, library) if other is not definition]
    if acts := _acts(others, library):
        text = f"By what it runs it acts outside the home too: by {listed(acts)}."
        yield Sentence(text, definition.line)


def outside_acts(definition: Definition, library: Library) -> tuple[str, ...]:
    """The actions and programs by which a definition, or one it runs, acts outside the home."""
    return tuple(_acts([definition, *_reached(definition, library)], library))


def _reached(definition: Definition, library: Library) -> list[Definition]:
    """The definitions that one names, and those that they name, transitively."""
    line = list(_called(definition, library))
    for other in line:
        line += (further for further in _called(other, library) if further not in line)
    return line


def _acts(definitions: Iterable[Definition], library: Library) -> dict[str, None]:
    acts: dict[str, None] = {}
    for one in definitions:
        acts |= dict.fromkeys(call.full_name for call in _called(one, library) if acts_outside(call))
        acts |= dict.fromkeys(f"the program {verbatim(name)}" for name in getattr(one, "programs", ()))
    return acts


def _called(definition: Definition, library: Library) -> Iterator[Definition]:
    """The definitions that one names."""
    named = (named_by(reference, library)[0] for reference in definition.references)
    return (each for each in named if each is not None)


def acts_outside(target: Definition | None) -> bool:
    """True if the target's effects are visible outside the home."""
    return bool(getattr(target, "outside", False))


def _declared(definition: Definition, library: Library) -> Iterator[Sentence]:
    """The sentence about a definition whose kind has no sentences of its own."""
    what = f"It is the {definition.kind} {definition.full_name}"
    if isinstance(definition, ModuleDefinition):
        yield Sentence(
            f"{what}: the Python code {definition.function} of {definition.path}.", definition.line
        )
    else:
        yield Sentence(f"{what}.", definition.line)


# --- words ------------------------------------------------------------------------------------------------

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

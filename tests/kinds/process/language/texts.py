"""Texts of Rubric and JoinLang, made up at random: statements, or words in any order."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from narval.core.definitions.reading.expressions import And, Not, Or, Predicate
from narval.kinds.process.language import joinlang, rubric
from narval.kinds.process.language.statements import (
    Accept,
    ArcsRequired,
    DateValue,
    DelayUntil,
    Discard,
    If,
    NamedDate,
    NodeRequired,
    Number,
    RelativeDate,
    SetRequired,
    Skip,
    StringValue,
    Text,
)
from tests.kinds.process.language.writing import is_name

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9._]{0,8}", fullmatch=True).filter(
    lambda name: is_name(name, rubric.word) and is_name(name, joinlang.word)
)
STRINGS = st.text(st.characters(codec="utf-8"), max_size=12).filter(lambda text: not text.endswith("\\"))
LABELS = STRINGS.map(str.strip).filter(lambda text: not text.endswith("\\"))
NUMBERS = st.integers(-(2**31), 2**31 - 1)

CONDITIONS = st.recursive(
    st.builds(Predicate, NAMES),
    lambda inner: st.one_of(st.builds(Not, inner), st.builds(And, inner, inner), st.builds(Or, inner, inner)),
    max_leaves=12,
)
NAMED = st.builds(NamedDate, NAMES)
UNITS = st.sampled_from(["second", "minute", "hour", "day", "week"])
DATES = st.one_of(NAMED, st.builds(RelativeDate, NUMBERS, UNITS, NAMED, st.booleans()))
RESULTS = st.one_of(
    st.builds(Accept),
    st.builds(Discard),
    st.builds(Skip, LABELS),
    st.builds(DelayUntil, DATES),
    st.builds(StringValue, NAMES),
    st.builds(Number, NUMBERS),
    st.builds(Text, STRINGS),
    st.builds(DateValue, DATES),
)
ALL_RESULTS = (Accept, Discard, Skip, DelayUntil, Number, Text, DateValue, StringValue)
STATEMENTS = st.recursive(RESULTS, lambda inner: st.builds(If, CONDITIONS, inner, inner), max_leaves=8)

WHEN = st.none() | CONDITIONS
REQUIREMENTS = st.one_of(
    st.builds(NodeRequired, STRINGS, WHEN),
    st.builds(SetRequired, STRINGS, WHEN),
    st.builds(ArcsRequired, st.none() | st.integers(1, 2**31 - 1), st.none() | LABELS, WHEN),
)
SETS = st.lists(REQUIREMENTS, min_size=1, max_size=4).map(tuple)
JOINS = st.lists(SETS, min_size=1, max_size=4).map(tuple)

RUBRIC_WORDS = """if IF then ELSE Else delay until Accept Discard Skip @ 5 business day hours SECONDS before
    after now "x\"y" or OR and not ( ) -3 99999999999 first " /* */ // é"""
JOINLANG_WORDS = """require node tokenset all arcs at least labelled default when 2 0 "a" or OR and not ( )
    -3 99999999999 first " /* */ // é"""


def texts(words: str) -> st.SearchStrategy[str]:
    """Words of a language in any order, or any characters at all."""
    mixed = st.lists(st.sampled_from([*words.split(), "\n"]) | NAMES, max_size=30).map(" ".join)
    return st.one_of(mixed, st.text(max_size=60))


def placeless(thing: Any) -> Any:
    """A statement or join as plain data, without the lines and columns of its parts."""
    plain = msgspec.to_builtins(thing)

    def without(each: Any) -> Any:
        if isinstance(each, dict):
            return {key: without(value) for key, value in each.items() if key not in ("line", "column")}
        return [without(value) for value in each] if isinstance(each, (list, tuple)) else each

    return without(plain)

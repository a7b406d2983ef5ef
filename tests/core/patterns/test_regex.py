"""Regular expressions of XPath, tried by RE2: what they match, what is refused, and what they may take."""

from __future__ import annotations

import re
from random import Random

import pytest
from elementpath.regex import RegexError, translate_pattern

from narval.core.patterns.budget import MOST_WORK, Work, WorkError
from narval.core.patterns.regex import Regex
from narval.core.patterns.syntax import ExpressionError


def matches(regex: str, text: str, flags: str = "") -> bool:
    return Regex(regex, flags).matches(text, Work())


@pytest.mark.parametrize(
    ("regex", "flags", "text"),
    [
        ("", "", "anything"),
        ("^Re:", "", "Re: Monday"),
        ("^re:", "i", "RE: Monday"),
        ("a.b", "s", "a\nb"),
        ("^b$", "m", "a\nb\nc"),
        ("a b", "x", "ab"),
        ("a [ ] b", "x", "a b"),
        ("a.b", "q", "a.b"),
        (r"^\i\c*$", "", "_name-1.x"),
        (r"^\d+$", "", "٣"),
        (r"^\w+$", "", "été"),
        ("^[a-z-[aeiou]]+$", "", "xyz"),
        (r"^[\w-[\d]]+$", "", "abc"),
        (r"^\p{IsGreek}\p{Lu}$", "", "αΑ"),
        (r"^[^\s,]+$", "", "a-b"),
        ("^[-a]+$", "", "-a"),
        (r"^\$\^\-$", "", "$^-"),
        ("^(a|b){2,3}?$", "", "abb"),
        (r"(\.[a-z]+)*$", "", ".a.b"),
    ],
)
def test_what_XPath_writes_is_matched(regex: str, flags: str, text: str) -> None:
    assert matches(regex, text, flags)


@pytest.mark.parametrize(
    ("regex", "flags", "text"),
    [
        ("a.b", "", "a\nb"),
        ("a.b", "q", "axb"),
        ("a b", "x", "a b"),
        ("^[a-z-[aeiou]]+$", "", "xyza"),
        (r"^\i", "", "-a"),
        ("b$", "", "b\n"),
    ],
)
def test_what_XPath_does_not_mean_is_not_matched(regex: str, flags: str, text: str) -> None:
    assert not matches(regex, text, flags)


@pytest.mark.parametrize(
    ("regex", "offset", "message"),
    [
        (r"(a)\1", 3, "cannot refer back to a group"),
        ("x(?=a)", 1, "after '\\(\\?' only ':' can stand"),
        ("(?i)a", 0, "after '\\(\\?' only ':' can stand"),
        (r"a\b", 1, r"unknown escape \\b"),
        (r"[a\q]", 2, r"unknown escape \\q"),
        ("ab[c", 2, "not closed"),
        ("ab[]c", 2, "empty class"),
        ("a[b[c]]", 3, "'\\[' within a class"),
        ("a]", 1, "closes nothing"),
        ("ab{x}", 2, "a number of times"),
        ("a{2000}", 0, "invalid repetition size"),
        ("a**", 0, "bad repetition operator"),
        ("(a", 0, "missing \\)"),
        (r"a\p{Zz}", 1, "Unicode"),
        (r"a\pL", 1, r"expected \\p"),
        ("a" * 2001, 0, "at most 2,000 characters"),
        ("((a{100}){100}){100}", 0, "invalid repetition size"),
    ],
)
def test_N10_what_cannot_be_tried_in_time_or_read_is_refused_with_its_place(
    regex: str, offset: int, message: str
) -> None:
    with pytest.raises(ExpressionError, match=message) as refused:
        Regex(regex)
    assert refused.value.offset == offset


PIECES = [
    *("a", "b", "A", ".", r"\s", r"\w", r"\d", "[a-c]", "[^b]", r"[\w-[a]]", r"[^\s-[x]]", "(a|b)", "(?:b|)"),
    *(r"\S", "^", "$", "é", r"\.", "-", r"[\-a]", r"\i", r"\c"),
]


def test_it_matches_what_elementpath_would_by_Pythons_matcher() -> None:
    chance = Random(5)
    compared = 0
    for _ in range(250):
        counts = ["", "", "", "*", "+", "?", "{2}", "{1,2}", "*?"]
        regex = "".join(chance.choice(PIECES) + chance.choice(counts) for _ in range(chance.randint(1, 4)))
        flags = "".join(flag for flag in "si" if chance.random() < 0.2)
        python = sum(getattr(re, flag.upper()) for flag in flags)
        try:
            expected = re.compile(translate_pattern(regex, python, "1.1"), python)
        except (RegexError, re.error):
            with pytest.raises(ExpressionError):
                Regex(regex, flags)
            continue
        for _ in range(5):
            text = "".join(chance.choice("abAc .\n1é-x") for _ in range(chance.randint(0, 6)))
            assert matches(regex, text, flags) == bool(expected.search(text)), (regex, flags, text)
            compared += 1
    assert compared > 500


def test_a_text_is_cut_and_put_together() -> None:
    comma, work = Regex(r"\s*,\s*"), Work()
    assert comma.tokens("a , b,,é", work) == ["a", "b", "", "é"]
    assert comma.tokens("", work) == []
    pair = Regex("(a)(b)?c")
    made = pair.replacement(r"[$2$1$0\$\\]$11", literal=False)
    assert pair.replaced("acxabcé", made, work) == r"[aac$\]a1x[baabc$\]a1é"
    assert pair.replaced("ac", pair.replacement(r"$1\x", literal=True), work) == r"$1\x"
    with pytest.raises(ExpressionError, match="expected \\$ with a digit"):
        pair.replacement("$x", literal=False)


BLANKS, LETTERS, TANGLED = " " * 40_000, "a" * 40_000, "ab" * 20_000
HOSTILE = [
    (r"\s+$", BLANKS + "x"),
    (".*.*.*.*=", LETTERS),
    ("(a+)+$", LETTERS + "b"),
    ("(a|aa)+$", LETTERS + "b"),
    ("(x+x+)+y", "x" * 40_000),
    (r"^(\w+\s?)*$", LETTERS + "!"),
    (r"\s*,\s*", BLANKS),
    ("x(.*z)?", "x" * 40_000),
    ("[ab]*a[ab]{200}c", TANGLED),
    ("(a?){50}a{50}", LETTERS),
]


@pytest.mark.parametrize(("regex", "text"), HOSTILE)
def test_N10_no_text_takes_more_work_than_the_loop_can_spare(regex: str, text: str) -> None:
    found = Regex(regex)
    for attempt in (found.matches, found.tokens):
        work = Work()
        try:
            attempt(text, work)
        except WorkError:
            assert work.done > MOST_WORK
        assert work.done < 20 * MOST_WORK


@pytest.mark.parametrize(("regex", "text"), HOSTILE[:7])
def test_N10_twice_the_text_is_twice_the_work(regex: str, text: str) -> None:
    done = []
    for size in (10_000, 20_000):
        work = Work()
        Regex(regex).matches(text[:size], work)
        done.append(work.done)
    assert done[1] < 2.1 * done[0]


def test_N10_cutting_an_ordinary_text_takes_work_in_proportion() -> None:
    work = Work()
    assert len(Regex(r"\s+").tokens("ab cd " * 1700, work)) == 3401
    assert work.done < MOST_WORK

"""Phrases for patterns and dates: what they say is what is written, no more and no less (D2)."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from narval.core.definitions.appointment import Appointment, Length
from narval.core.definitions.reading.times import cron, interval
from narval.core.definitions.schedule import Time
from narval.core.definitions.telling.dates import appointment, date, dates, every
from narval.core.definitions.telling.patterns import element_phrase, presence, value_phrase
from narval.core.definitions.telling.sentence import length
from narval.core.elements.element import Element, Tree
from narval.core.patterns.pattern import compile_pattern, condition

PHRASES = {
    "email": "an email",
    "user[@name]": 'a user that has "name"',
    "email[contains(@subject, 'invoice')]": 'an email whose subject contains "invoice"',
    "email[@a and not(@b) and not(@c | @d)]": 'an email that has "a" and that has none of "b", "c" and "d"',
    "email[@kind='a' or @kind='b']": 'an email whose kind is "a" or "b"',
    "email[@a = 'x' or (@b and @c)]": 'an email either whose a is "x" or (that has "b" and "c")',
    "request[amount > 100 and amount <= 1000]":
        "a request in which an amount is more than 100 and in which an amount is at most 1000",
    "paid[@invoice = $invoice/@number]": 'a paid whose invoice is the number of "invoice"',
    "a | b[@c]": 'an a, or a b that has "c"',
    "order/line[@open]": 'an order that contains a line that has "open"',
    "*[not(self::target)]": "an element of any name that is not a target",
    "email[count(to) > 3]": "an email for which `count(to) > 3` holds",
    "email[2]": "an element that fits `email[2]`",
    "email[contains(subject, 'x')]": "an email for which `contains(subject, 'x')` holds",
    "//email": "an element that fits `//email`",
    "email[@a le $m/@b]": "an element that fits `email[@a le $m/@b]`",
}  # fmt: skip


@pytest.mark.parametrize("pattern", PHRASES)
def test_D2_a_pattern_is_a_phrase_or_as_it_is_written(pattern: str) -> None:
    assert element_phrase(condition(pattern)) == PHRASES[pattern]


def test_D2_what_looks_at_variables_alone_is_a_clause() -> None:
    assert presence(condition("$ask[@outcome='yes']")) == '"ask" is one whose outcome is "yes"'
    assert presence(condition("email", "*[@a]"), absent=True) == (
        'there is no element that is an email, which is also an element of any name that has "a"'
    )
    assert value_phrase("$order/line/@price") == 'the price of the line in "order"'
    assert value_phrase("concat($a/@b, 'x')") == "`concat($a/@b, 'x')`"


ATOMS = (
    "@a", "b", "not(@a)", "not(b)", "@a = 'x'", "@a != 'x'", "not(@a = 'x')", "b = 'x'", "b != 'x'", "@a > 1",
    "@a >= 2", "2 > @a", "contains(@a, 'x')", "not(contains(@a, 'x'))", "starts-with(@a, 'x')", "@a | @c",
    "not(@a | @c)", "@c = 'x'", "@a = $v/@a", "@a = $v/a", "$v/@a", "not($v/@a)", "b[@a]", "b/@a",
    "b/@a = 'x'", ". = 'x'", "self::e", "not(self::e)", "not(b[@a])", "b/c", "@a = @c",
)  # fmt: skip
VALUES = (None, "x", "2", "yx")


def _elements() -> list[Element]:
    """Elements that differ in what the atoms look at."""
    inside = ("", "x", "<b>x</b>", "<b>y</b>", '<b a="x"/>', '<b a="y"><c/></b>', "<b>x</b><b>y</b>")
    return [
        Element(at, f"<{name}{_attribute('a', a)}{_attribute('c', c)}>{within}</{name}>".encode())
        for at, (name, a, c, within) in enumerate(product("ed", VALUES, VALUES, inside), 1)
    ]


def _attribute(name: str, value: str | None) -> str:
    return "" if value is None else f' {name}="{value}"'


def test_D2_patterns_that_are_told_alike_hold_of_the_same_elements() -> None:
    trees = [Tree(element) for element in _elements()]
    values = [Element(1000, b'<v a="x"/>'), Element(1001, b"<v><a>2</a></v>"), Element(1002, b"<v/>")]
    pairs = [
        f"{joint.format(*pair)}" for pair in combinations(ATOMS, 2) for joint in ("{0} and {1}", "{0} or {1}")
    ]
    first: dict[str, tuple[str, list[bool]]] = {}
    for predicate in (*ATOMS, *pairs):
        for pattern in (f"e[{predicate}]", f"*[{predicate}]"):
            given = condition(pattern)
            bound = [given.bind({"v": [value]} if given.variables else {}) for value in values]
            truth = [one.test(tree) for one in bound for tree in trees[:: 5 if predicate in pairs else 1]]
            other, before = first.setdefault(element_phrase(given), (pattern, truth))
            assert truth == before, (pattern, other, element_phrase(given))


TIMES = {
    "every second": Time(),
    "at 18:00 on the last day of the month": Time(((0, 0),), ((0, 0),), ((18, 18),), ((-1, -1),)),
    "at 09:00 and 18:00 every day": Time(((0, 0),), ((0, 0),), ((9, 9), (18, 18))),
    "at 07:30:15 on Monday to Friday": Time(((15, 15),), ((30, 30),), ((7, 7),), weekdays=((0, 4),)),
    "at the beginning of every 5th minute of hour 9 to 17 every day":
        Time(((0, 0),), ((0, 59, 5),), ((9, 17),)),
    "at the beginning of every hour in March and June to August":
        Time(((0, 0),), ((0, 0),), months=((3, 3), (6, 8))),
    "at 03:00 every day, and not at all if that was missed":
        Time(((0, 0),), ((0, 0),), ((3, 3),), missed="skip"),
}  # fmt: skip


@pytest.mark.parametrize("words", TIMES)
def test_D2_a_date_that_comes_again_is_told(words: str) -> None:
    assert date(TIMES[words]) == words


def test_D2_a_moment_that_comes_once_is_told() -> None:
    start = compile_pattern("$event/@start")
    quarter = Appointment("", Length(0, 900.0), at=start, before=True)
    assert appointment(quarter) == '15 minutes before the start of "event"'
    assert appointment(Appointment("", at=start)) == 'at the start of "event"'
    days = Appointment("", Length(2), ((0, 4),), "skip")
    assert appointment(days) == (
        "2 days after the steps before it have ended (of which Monday to Friday alone count), and not at all "
        "if that was missed"
    )
    assert [length(seconds) for seconds in (0.5, 61, 86_400, 90_000)] == [
        "0.5 seconds", "1 minute 1 second", "1 day", "1 day 1 hour"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("1d", "every day"),
        ("2d 3h", "every 2 days 3 hours"),
        ("1d mon-fri", "every day (of which Monday to Friday alone count)"),
        ("1w sun", "every 7 days (of which Sunday alone count)"),
        ("4h 9-17", "every 4 hours (of which 09:00 to 17:00 alone count)"),
        (
            "1h mon-fri 9-12,13:30-17",
            "every hour (of which 09:00 to 12:00 and 13:30 to 17:00 on Monday to Friday alone count)",
        ),
    ],
)
def test_D2_what_comes_again_after_a_length_is_told_with_the_time_that_counts(
    written: str, words: str
) -> None:
    assert every(interval(written)) == words


def test_D2_what_cron_means_is_told() -> None:
    assert (
        dates(cron("0 7 13 * 1-5")) == "at 07:00 on the 13th day of the month or at 07:00 on Monday to Friday"
    )

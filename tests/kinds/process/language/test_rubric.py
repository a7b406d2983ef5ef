"""Rubric, the language of guards: what it means, and every slip at its very character (section 4)."""

from __future__ import annotations

import pytest
from hypothesis import given

from narval.core.definitions.reading.expressions import And, Not, Or, Predicate
from narval.core.definitions.reading.lexer import MOST_CHARACTERS, MOST_DEPTH, MOST_FAULTS, MOST_TERMS
from narval.kinds.process.language import rubric
from narval.kinds.process.language.checks import names_asked
from narval.kinds.process.language.rubric import parse
from narval.kinds.process.language.statements import (
    Accept,
    DateValue,
    DelayUntil,
    Discard,
    If,
    NamedDate,
    Number,
    RelativeDate,
    Skip,
    Statement,
    StringValue,
    Text,
)
from tests.kinds.process.language.texts import ALL_RESULTS, RUBRIC_WORDS, STATEMENTS, placeless, texts
from tests.kinds.process.language.writing import text_of_statement


def read(text: str) -> Statement:
    """A text of any result, without slips; its places are left to one test of their own."""
    found = parse(text, lambda _: (1, 1), ALL_RESULTS)
    assert found.faults == ()
    assert found.statement is not None
    return found.statement


def slips(text: str) -> list[str]:
    """The slips of a guard; they must be where its marks are."""
    places = [at - number for number, at in enumerate(at for at, sign in enumerate(text) if sign == "§")]
    found = parse(text.replace("§", ""))
    assert [slip.at for slip in found.faults] == places, found.faults
    assert found.statement is None
    return [slip.message for slip in found.faults]


A, B, C = Predicate("a"), Predicate("b"), Predicate("c")
NOW = NamedDate("now")


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("Accept", Accept()),
        ("Discard", Discard()),
        ("Skip", Skip()),
        ("Skip exit", Skip("exit")),
        ('Skip "back to day"', Skip("back to day")),
        ('Skip ""', Skip()),
        ("-12", Number(-12)),
        ('"say \\"hi\\" \\n"', Text('say "hi" \\n')),
        ("(now)", DateValue(NOW)),
        ("@name.of_it", StringValue("name.of_it")),
        ("DELAY UNTIL now", DelayUntil(NOW)),
        ("delay Until 5 SECONDS after now", DelayUntil(RelativeDate(5, "second", NOW))),
        ("delay until 2 business days before now", DelayUntil(RelativeDate(-2, "day", NOW, business=True))),
        ("delay until -1 week before now", DelayUntil(RelativeDate(1, "week", NOW))),
        ("IF a THEN Accept ELSE Discard", If(A, Accept(), Discard())),
        ("if a Then Skip else IF b then Skip x ELSE Accept", If(A, Skip(), If(B, Skip("x"), Accept()))),
        ("if a then if b then Accept else Skip else Discard", If(A, If(B, Accept(), Skip()), Discard())),
    ],
)
def test_section_4_statements(text: str, statement: Statement) -> None:
    assert read(text) == statement


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("a or b or c", Or(Or(A, B), C)),
        ("a OR b AND c", Or(A, And(B, C))),
        ("a and b and c", And(And(A, B), C)),
        ("(a or b) and NOT c", And(Or(A, B), Not(C))),
        ("not (not a)", Not(Not(A))),
    ],
)
def test_section_4_and_binds_more_tightly_than_or_and_both_from_the_left(
    text: str, condition: object
) -> None:
    assert read(f"if {text} then Accept else Discard") == If(condition, Accept(), Discard())


@pytest.mark.parametrize("text", ["/* one\n two */ Accept // three\n", "Accept/**/", "Accept//\r\n"])
def test_section_4_comments_say_nothing(text: str) -> None:
    assert read(text) == Accept()


@pytest.mark.parametrize("word", ["day", "hour", "weeks", "business", "before", "Skip", "DELAY", "if"])
def test_section_4_a_reserved_word_is_no_name(word: str) -> None:
    assert parse(f"if {word} then Accept else Discard").statement is None


@pytest.mark.parametrize("word", ["Day", "HOUR", "skip", "ACCEPT", "Business", "Or", "And", "nOt"])
def test_section_4_most_words_are_bound_to_their_case(word: str) -> None:
    assert read(f"if {word} then Accept else Discard") == If(Predicate(word), Accept(), Discard())


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("§", ["expected Accept, Discard, Skip, DELAY UNTIL or IF, found the end"]),
        ("§accept", ["did you mean 'Accept'?"]),
        ("Accept §Discard", ["expected the end, found 'Discard'"]),
        (
            "if §then Accept else Discard",
            ["the name of a predicate, or a parenthesis, found 'then'"],
        ),
        ("if a §b then Accept else Discard", ["expected and, or, or THEN, found 'b'"]),
        ("if not §not a then Accept else Discard", ["write not (not …)"]),
        (
            "if (a or b §then Accept else Discard",
            ["expected and, or, or a closing parenthesis"],
        ),
        ("if a then Accept§", ["expected ELSE, which each IF needs, found the end"]),
        ("Skip §day", ['for arcs of that name write "day"']),
        ("delay until 5 days§", ["expected before or after, found the end"]),
        ("delay until 5 §fortnights after now", ["expected seconds, minutes, hours, days or weeks"]),
        ("delay until §2147483648 days after now", ["expected a number of 32 bits, found 2147483648"]),
        ('Skip §"x', ['this string has no end; write " after it']),
        ("Accept §// and no end of the line", ["needs the end of its line after it"]),
        ("Accept §/* and no end", ["needs */ at its end"]),
        ("if a§% then §foo else §#Skip", ["'%'", "found 'foo'", "'#'"]),
        (
            "if a then §5 else @§",
            [
                "expected Accept or Discard or Skip or DELAY UNTIL as the result",
                "a string function, found the",
            ],
        ),
    ],
)
def test_section_4_each_slip_is_at_its_character_and_all_are_found(text: str, messages: list[str]) -> None:
    found = slips(text)
    assert len(found) == len(messages)
    assert [wanted for wanted, message in zip(messages, found, strict=True) if wanted not in message] == []


def test_section_4_names_and_arcs_know_their_places() -> None:
    found = parse("IF a and b THEN Skip out ELSE DELAY UNTIL 1 day after now", lambda at: (7, at + 3))
    assert isinstance(found.statement, If)
    assert [(kind, name.name, name.line, name.column) for kind, name in names_asked(found.statement)] == [
        ("predicate", "a", 7, 6),
        ("predicate", "b", 7, 12),
        ("date-function", "now", 7, 57),
    ]
    assert found.statement.then == Skip("out", 7, 24)


@pytest.mark.parametrize("result", ["5", '"x"', "(now)"])
def test_section_4_a_guard_says_nothing_but_what_guards_say(result: str) -> None:
    assert "as the result" in parse(result).faults[0].message
    assert parse("@string_functions_are_not_checked").faults == ()


@given(STATEMENTS)
def test_section_4_what_is_written_is_read_again(statement: Statement) -> None:
    assert placeless(read(text_of_statement(statement))) == placeless(statement)


@given(texts(RUBRIC_WORDS))
def test_any_text_gives_a_statement_or_slips_within_it(text: str) -> None:
    found = parse(text)
    assert (found.statement is None) == bool(found.faults)
    assert all(0 <= slip.at <= len(text) and slip.message for slip in found.faults)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 9000,
        "if (" * 4000,
        "if " * 5000,
        "if not " * 2000,
        "if a then " * 1500,
        "# " * 9000,
        "if " + "(" * 9000 + "a",
        "if a then Accept else " * 900 + "Skip",
        "if " + "a or " * 3000 + "a then Accept else Skip",
        "if " + "(" * 50 + "a" + " or a)" * 2000,
        '"' * 9001,
        "/*" * 9000,
        "x" * (MOST_CHARACTERS + 1),
        "-" * 9000,
        "9" * 9000,
    ],
)
def test_hostile_texts_are_refused_in_short(text: str) -> None:
    found = parse(text)
    assert found.statement is None
    assert 0 < len(found.faults) <= MOST_FAULTS + 1
    assert all(len(slip.message) < 300 for slip in found.faults)


def test_what_is_within_bounds_is_read() -> None:
    nested = "(" * (MOST_DEPTH - 1) + "a" + ")" * (MOST_DEPTH - 1)
    assert read(f"if {nested} then Accept else Discard") == If(A, Accept(), Discard())
    many = " or ".join(["a"] * MOST_TERMS)
    assert (
        text_of_statement(read(f"if {many} then Accept else Discard"))
        == f"IF {many} THEN Accept ELSE Discard"
    )
    chain = "IF a THEN Skip ELSE " * MOST_TERMS + "Accept"
    assert text_of_statement(read(chain)) == chain


def test_no_string_can_end_with_a_backslash() -> None:
    with pytest.raises(ValueError, match="backslash"):
        text_of_statement(Text("a\\"))
    assert rubric.word("day") == "day"

"""JoinLang, the language of joins: what it means, and every slip at its very character (section 6)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from narval.core.definitions.reading.expressions import And, Not, Or, Predicate
from narval.core.definitions.reading.lexer import MOST_CHARACTERS, MOST_FAULTS
from narval.kinds.process.language.joinlang import parse
from narval.kinds.process.language.statements import ArcsRequired, Join, NodeRequired, SetRequired
from tests.kinds.process.language.texts import JOINLANG_WORDS, JOINS, placeless, texts
from tests.kinds.process.language.writing import text_of_join

A, B = Predicate("a"), Predicate("b")


def read(text: str) -> Join:
    found = parse(text, lambda _: (1, 1))
    assert found.faults == ()
    return found.join


@pytest.mark.parametrize(
    ("text", "join"),
    [
        ('require node "A"', ((NodeRequired("A"),),)),
        ('require tokenset "a \\"set\\""', ((SetRequired('a "set"'),),)),
        ("require all arcs", ((ArcsRequired(),),)),
        ("require at least 2 arcs", ((ArcsRequired(2),),)),
        ('require all arcs labelled "ready"', ((ArcsRequired(None, "ready"),),)),
        ("require at least 10 arcs labelled default", ((ArcsRequired(10, ""),),)),
        ('require node "A" require node "B"', ((NodeRequired("A"), NodeRequired("B")),)),
        ('require node "A" or require node "B"', ((NodeRequired("A"),), (NodeRequired("B"),))),
        ("require all arcs when a and not b", ((ArcsRequired(when=And(A, Not(B))),),)),
        ("require all arcs when a OR b", ((ArcsRequired(when=Or(A, B)),),)),
        (
            "require all arcs when a or require all arcs when b",
            ((ArcsRequired(when=A),), (ArcsRequired(when=B),)),
        ),
        (
            'require all arcs when (a or b) or a OR require node "A" /**/\nrequire at least 1 arcs when a',
            ((ArcsRequired(when=Or(Or(A, B), A)),), (NodeRequired("A"), ArcsRequired(1, when=A))),
        ),
    ],
)
def test_section_6_joins(text: str, join: Join) -> None:
    assert read(text) == join


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("§", ["expected require, found the end"]),
        ("§Require all arcs", ["expected require, found 'Require'"]),
        ("require §arcs", ["expected node, tokenset, all arcs or at least … arcs, found 'arcs'"]),
        ("require node §A", ["expected the name of a node in quotes, found 'A'"]),
        ("require at least §0 arcs", ["expected a number from 1, found '0'"]),
        ("require at least §02 arcs", ["expected a number from 1, found '02'"]),
        ("require at least §9999999999 arcs", ["expected a number of 32 bits"]),
        ("require all arcs or§", ["expected require, found the end"]),
        ("require all arcs labelled §x", ["expected the name of arcs in quotes, or default"]),
        ("require all arcs when §require all arcs", ["expected the name of a predicate"]),
        (
            "require all §arc require node §A or require at §most 3 arcs §?",
            ["expected arcs", "in quotes", "expected least", "'?'"],
        ),
    ],
)
def test_section_6_each_slip_is_at_its_character_and_all_are_found(text: str, messages: list[str]) -> None:
    places = [at - number for number, at in enumerate(at for at, sign in enumerate(text) if sign == "§")]
    found = parse(text.replace("§", ""))
    assert found.join == ()
    assert [slip.at for slip in found.faults] == places, found.faults
    assert [
        wanted for wanted, slip in zip(messages, found.faults, strict=True) if wanted not in slip.message
    ] == []


@given(JOINS)
@settings(suppress_health_check=[HealthCheck.too_slow])  # the first join takes a second to draw
def test_section_6_what_is_written_is_read_again(join: Join) -> None:
    assert placeless(read(text_of_join(join))) == placeless(join)


@given(texts(JOINLANG_WORDS))
def test_any_text_gives_a_join_or_slips_within_it(text: str) -> None:
    found = parse(text)
    assert (found.join == ()) == bool(found.faults)
    assert all(0 <= slip.at <= len(text) and slip.message for slip in found.faults)


@pytest.mark.parametrize(
    "text",
    [
        "require " * 2400,
        "or " * 6000,
        "require all arcs when " + "(" * 9000,
        "require all arcs when " + "a or " * 3000 + "a",
        "require all arcs when " * 800,
        "x" * (MOST_CHARACTERS + 1),
    ],
)
def test_hostile_texts_are_refused_in_short(text: str) -> None:
    found = parse(text)
    assert found.join == ()
    assert 0 < len(found.faults) <= MOST_FAULTS + 1

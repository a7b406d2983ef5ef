"""Lifting literals out of an expression never changes what it means."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lxml import etree

from narval.core.elements.element import Element, Tree
from narval.core.patterns.syntax import MOST_DEPTH, ExpressionError, check_depth, lift, tokens
from tests.core.patterns.expressions import NAMESPACES, elements, patterns
from tests.examples import examples

_WORDS = (
    *(
        "email",
        "a",
        "b2",
        "c-1",
        "d.5",
        "and",
        "or",
        "div",
        "mod",
        "text",
        "processing-instruction",
        "p:a",
        "p:*",
    ),
    *(
        "'x'",
        '"y"',
        "'it'",
        '"a\'b"',
        "''",
        "10",
        "1",
        "0.5",
        "1.",
        ".5",
        "1e3",
        "007",
        "12345678901234567890",
    ),
    *(
        "@",
        "/",
        "//",
        "[",
        "]",
        "(",
        ")",
        ",",
        "|",
        "+",
        "-",
        "*",
        "=",
        "!=",
        "<",
        ">=",
        ".",
        "..",
        "::",
        ":",
        "$v",
    ),
    *("child::", "self::", "not(", "contains(", "count(", "string(", " ", "  ", "\n"),
)
garbage = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=12).map("".join)


def lifted_result(text: str, tree: Tree) -> object:
    shape, literals = lift(text)
    names = [found[1:] for found in shape.split() if found.startswith("$_")]
    return evaluated(shape, tree, dict(zip(names, literals, strict=True)))


def evaluated(text: str, tree: Tree, variables: dict[str, object]) -> object:
    """The result of a text by lxml: nodes and values, or the kind of failure."""
    try:
        return etree.XPath(text, namespaces=NAMESPACES)(tree.context, v=[], **variables)
    except etree.XPathSyntaxError:
        return "is no expression"
    except etree.XPathEvalError:
        return "cannot be evaluated"


@settings(max_examples=examples(80), deadline=None)
@given(text=patterns(), element=elements())
def test_a_shape_with_its_literals_gives_the_result_of_the_text(text: str, element: Element) -> None:
    assume("$ask" not in text and "$none" not in text)
    tree = Tree(element)
    result = evaluated(text, tree, {})
    assert lifted_result(text, tree) == result or result != result


@settings(max_examples=examples(100), deadline=None)
@given(text=garbage, element=elements())
def test_a_text_that_is_no_expression_is_no_shape_either(text: str, element: Element) -> None:
    assume(not text.isspace())
    tree = Tree(element)
    result = evaluated(text, tree, {})
    assert lifted_result(text, tree) == result or result != result


def test_patterns_that_differ_in_literals_share_a_shape() -> None:
    shapes = {
        lift(f"email[@subject='s{n}' and number(@size) > {n} and @score < 0.{n + 1}]")[0] for n in range(9)
    }
    assert len(shapes) == 1
    shape, literals = lift('email[@subject="it\'s" and @size > 10 and @score < 0.5]')
    assert literals == ("it's", 10, 0.5)
    assert "it's" not in shape


@pytest.mark.parametrize(
    "text",
    [
        "h1",
        "email-2",
        "a.5",
        "$step-1",
        "email[processing-instruction('x')]",
        "email[@a = $_s0 and @b = 'x']",
        "note (: ' :) [@a] (: ' :)",
        "email[@a > 1e3]",
        "email[@a = 12345678901234567]",
    ],
)
def test_a_text_that_only_looks_like_a_literal_stays(text: str) -> None:
    assert lift(text) == (text, ())


def test_tokens_have_their_offsets() -> None:
    text = "p:email [@size>=.5 and $wait-1/@a.b != 'x']"
    assert [text[token.at : token.end] for token in tokens(text)] == (
        ["p:email", "[", "@", "size", ">=", ".5", "and", "$wait-1", "/", "@", "a.b", "!=", "'x'", "]", ""]
    )


def test_a_character_that_begins_no_token_is_an_error_with_its_offset() -> None:
    with pytest.raises(ExpressionError) as caught:
        list(tokens("email[@a & 1]"))
    assert caught.value.offset == 9


def test_brackets_in_strings_do_not_count() -> None:
    check_depth("email[@a='" + "[" * 1000 + "']")
    check_depth("[" * MOST_DEPTH)
    with pytest.raises(ExpressionError):
        check_depth("[" * (MOST_DEPTH + 1))

"""The cursor that the readers of all grammars share."""

from __future__ import annotations

import re

import pytest

from narval.core.source.tokens import END, Token, TokenCursor, scan

PATTERN = re.compile(r"(?P<blank>\s+)|\$(?P<variable>\w+)|(?P<name>\w+)|(?P<mark>[():])")


def cursor(text: str) -> TokenCursor:
    return TokenCursor(scan(PATTERN, text), lambda message, at: ValueError(f"{at}: {message}"))


def test_a_token_has_its_group_and_its_place_and_a_mark_is_of_its_own_kind() -> None:
    assert list(scan(PATTERN, "f ( $x")) == [
        Token("name", "f", 0, 1),
        Token("(", "(", 2, 3),
        Token("variable", "x", 4, 6),
        Token(END, "", 6, 6),
    ]


def test_the_end_stays_where_it_is() -> None:
    tokens = cursor("a")
    assert [tokens.advance().kind for _ in range(3)] == ["name", END, END]
    assert tokens.last.text == "a"
    assert tokens.ahead(2).kind == END


def test_what_is_expected_is_read_and_anything_else_is_an_error_at_its_place() -> None:
    tokens = cursor(f"f ({'x' * 50}")
    assert tokens.expect("a name", "name").text == "f"
    assert tokens.accept(":") is None
    assert tokens.expect("(", "(", ":").at == 2
    with pytest.raises(ValueError, match=f"3: expected a colon, found '{'x' * 40}…'"):
        tokens.expect("a colon", ":")
    tokens.advance()
    with pytest.raises(ValueError, match="53: expected a colon, found the end"):
        tokens.expect("a colon", ":")

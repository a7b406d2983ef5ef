"""Regular expressions that may take for ever are found."""

from __future__ import annotations

import pytest

from narval.memory.patterns.regex import hazard


@pytest.mark.parametrize(
    "regex",
    [
        "(a+)+$",
        "(a*)*",
        "(?:a*)+b",
        "(a|aa)+",
        "(a|A)*",
        "(a|a?)+",
        "(a?b|b)*c",
        "(.*a){20}",
        "(a?){30}",
        "(x+x+)+y",
        r"(\d+\s?)*",
        r"([a-z]+\s)*" + "x",
        r"(\p{L}+)*",
        "((a|b)+)*",
        "x(y(z+)*)?",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "((a+)b?)*",
        "(a+){2,}",
        "(" * 200 + ")" * 200,
    ],
)
def test_an_expression_that_can_match_a_text_in_many_ways_is_a_hazard(regex: str) -> None:
    if regex == r"([a-z]+\s)*" + "x":
        assert hazard(regex) == r"([a-z]+\s)*"
    else:
        assert hazard(regex) is not None


@pytest.mark.parametrize(
    "regex",
    [
        "",
        "^Re:",
        "^(Re|Fwd):",
        "a+b*c?",
        "(abc)*",
        "(foo|bar)+",
        r"(\.[a-z]+)*",
        r"(\d+,)*",
        r"^[\w.]+@([\w-]+\.)+\w+$",
        "([^,]*,)*",
        "(a{1,3}){2}",
        "(a+)?",
        "(ab?)",
        r"\(a+\)+",
        "[(a+)+]",
        r"[\](a+]+",
        "(",
        "a)b|c)",
        "[",
    ],
)
def test_an_expression_that_can_match_in_one_way_is_no_hazard(regex: str) -> None:
    assert hazard(regex) is None

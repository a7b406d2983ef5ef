"""Long lines of notices are broken and joined again (P60; RFC 3676); answers by mail are read (P61)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.mail.texts import unflow
from narval.people.mail.answers import MailAnswer, read_answer
from narval.people.mail.writing import flowed

WORDS = st.text(st.sampled_from("ab .-|"), max_size=200)


@given(st.lists(WORDS, max_size=5))
def test_P60_what_is_flowed_is_read_as_it_was_written(lines: list[str]) -> None:
    written = [line.rstrip(" ") for line in lines]
    text = "\n".join(line for line in written if line != "--")
    sent = flowed(text)
    assert unflow(sent, False) == text


@given(WORDS.map(lambda words: words.replace("-", "")))
def test_P60_lines_are_short_where_there_are_blanks(words: str) -> None:
    lines = flowed(words).splitlines()
    assert all(len(line) <= 73 or " " not in line.strip(" ") or line.startswith("| ") for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "reject\ncomment: too dear",
        "Reject\nComment: too dear\n\nSent from my telephone",
        "\ufeffREJECT\u200b\r\nCOMMENT : too dear\r\n> reject",
    ],
)
def test_P61_telephones_begin_lines_with_capitals_and_blanks_may_have_no_width(text: str) -> None:
    fields = {"comment": ["too dear"]}
    assert read_answer(text, ["reject"], ["comment", "Limit"]) == MailAnswer(
        "answer", {"outcome": "reject", "fields": fields}
    )


def test_P61_a_line_of_blanks_holds_up_nobody() -> None:
    blanks = " " * 400_000  # minutes, if the effort grew with their square
    said = read_answer(f"yes\nwhy: a{blanks}b{blanks}\n\n> a{blanks}b", ["yes"])
    assert said.arguments["fields"] == {"why": [f"a{blanks}b"]}


def test_P61_a_field_whose_name_differs_only_in_case_is_named_exactly() -> None:
    said = read_answer("yes\na: 1\nA: 2\nB: 3\nc: 4", ["yes"], ["a", "A", "b"])
    assert said.arguments["fields"] == {"a": ["1"], "A": ["2"], "b": ["3"], "c": ["4"]}
    assert read_answer("refuse\nReason: no time", ["yes"]).arguments == {"reason": "no time"}

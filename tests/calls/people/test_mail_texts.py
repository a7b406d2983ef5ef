"""Long lines of notices are broken, and joined again by who reads them (P60; RFC 3676)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modules.mail.texts import unflow
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

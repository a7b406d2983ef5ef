"""docs/reference/people.md tells the truth: it begins with one question, and ends with the purchase (P88)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_cli_page import Reader, examples, follow
from tests.places import ROOT

PAGE = ROOT / "docs" / "reference" / "people.md"
PEOPLE = "## Who is who"
FILES = ["purchase.xml", "purchase.process.xml", "purchase.task", "purchase.payment.xml"]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reading = Reader(tmp_path)
    yield reading
    reading.end()


def test_P88_one_question_and_then_a_purchase(reader: Reader, tmp_path: Path) -> None:
    for part in PAGE.read_text(encoding="utf-8").split(PEOPLE):
        page = tmp_path / "part.md"
        page.write_text(part, encoding="utf-8")
        files = [(title, text) for language in ("xml", "toml") for title, text in examples(language, page)]
        for title, text in files:
            if title:
                file = tmp_path / title.replace("~/", "")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        follow(reader, page)


@pytest.mark.parametrize("name", FILES)
def test_P88_the_page_has_the_purchase_as_it_ships(name: str) -> None:
    text = (ROOT / "recipes" / "examples" / name).read_text(encoding="utf-8")
    language = Path(name).suffix.removeprefix(".")
    assert f"```{language}\n{text}```\n" in PAGE.read_text(encoding="utf-8")

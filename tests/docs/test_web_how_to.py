"""How-to pages on what is outside are followed: files written, commands given, answers compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_cli_page import Reader, examples, follow
from tests.places import DOCS


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reading = Reader(tmp_path)
    (tmp_path / ".narval").mkdir()
    yield reading
    reading.end()


def write_files(reader: Reader, page: Path) -> None:
    """Write the files that a page shows."""
    for language in ("toml", "xml", "python"):
        for title, text in examples(language, page):
            if title:
                file = reader.folder / title.replace("~/", "")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)


def do(reader: Reader, name: str, **stands_for: str) -> None:
    """Follow a page, with other words where what it names is not the reader's."""
    text = (DOCS / "how-to" / name).read_text("utf-8")
    assert len(text.splitlines()) <= 60
    for word, other in stands_for.items():
        text = text.replace(word, other)
    page = reader.folder / name
    page.write_text(text)
    write_files(reader, page)
    follow(reader, page)


def test_run_a_program(reader: Reader) -> None:
    do(reader, "run-a-program.md")

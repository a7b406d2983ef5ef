"""tutorial/first-hour.md is tested as written: its files saved, its commands run, in order, in a new home."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_cli_page import FENCE, Reader
from tests.places import ROOT

PAGE = ROOT / "docs" / "tutorial" / "first-hour.md"
NUMBER = re.compile(r"(?<![\w:.=\"'-])[1-9]\d*(?![\w:.\"'-])")
"""A number of an element, of definitions, of matches."""
VARIES = [
    (r"\d{4}-\d\d-\d\d (?=\d\d:\d\d:\d\d \()", "DAY "),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?! \()", "MOMENT"),
    (r"\bnarval,? \d+\.\d+\.\d+", "narval VERSION"),
    (r"[ \t]+", " "),
]
"""Days differ, and when the page was tried; the hours that it promises do not."""


def blocks() -> Iterator[tuple[str, str, str]]:
    """What the page has in fences, in order: the language, the file it is for, the text."""
    for found in FENCE.finditer(PAGE.read_text(encoding="utf-8")):
        yield found[1], found[2] or "", found[3]


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a block, and what it is shown to write."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, written = part.partition("\n")
        yield command, written


def steady(text: str) -> str:
    for pattern, name in VARIES:
        text = re.sub(pattern, name, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


class Numbers:
    """What the numbers of the page are here: each stands for one, and always for the same."""

    def __init__(self) -> None:
        self._here: dict[str, str] = {}

    def in_command(self, command: str) -> str:
        return NUMBER.sub(lambda found: self._here.get(found[0], found[0]), command)

    def agree(self, shown: str, written: str) -> bool:
        """Whether two texts are the same but for their numbers, and these stand for each other."""
        if NUMBER.sub("N", shown) != NUMBER.sub("N", written):
            return False
        pairs = zip(NUMBER.findall(shown), NUMBER.findall(written), strict=True)
        return all(self._here.setdefault(there, here) == here for there, here in pairs)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reading = Reader(tmp_path)
    (tmp_path / "bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "bin/python").chmod(0o755)
    yield reading
    reading.end()


def save(reader: Reader, title: str, text: str) -> None:
    """Save a file; where a daemon is at work, go on when it has taken that up, as a person would."""
    loaded = reader.does("narval definitions --json") if reader.background else ""
    file = reader.folder / title.removeprefix("~/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    until = time.monotonic() + 30
    while loaded and reader.does("narval definitions --json") == loaded and time.monotonic() < until:
        time.sleep(0.1)


def test_the_first_hour_goes_as_the_page_says(reader: Reader) -> None:
    numbers = Numbers()
    for language, title, text in blocks():
        if title:
            save(reader, title, text)
        elif language == "console":
            for command, shown in commands(text):
                written = reader.does(numbers.in_command(command)).replace(str(reader.folder), "/home/ann")
                if not numbers.agree(steady(shown), steady(written)):
                    pytest.fail(f"$ {command}\n{written}\ninstead of\n{shown}", pytrace=False)


def test_every_file_of_the_page_is_saved_and_only_the_installation_is_left_out() -> None:
    languages = [language for language, title, _ in blocks() if not title and language != "console"]
    assert languages == ["sh"]
    assert sum(title.endswith("morning.xml") for _, title, _ in blocks()) == 3

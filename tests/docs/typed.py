"""A page as a reader types it: its files saved, its commands given, in order, in a home of its own."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.system.logins import login
from tests.docs.test_cli_page import FENCE, Reader

NUMBER = re.compile(r"(?<![\w:.=\"'-])[1-9]\d*(?![\w:.\"'-])")
"""A number of an element, of definitions, of matches."""

VARIES = [
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?= \([\w/]+\), after)", "MOMENT"),
    (r"\d{4}-\d\d-\d\d (?=\d\d:\d\d:\d\d \()", "DAY "),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{3})?(?! \()", "MOMENT"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "MOMENT"),
    (r"\b\d+(\.\d)? (ms|s)\b", "LENGTH"),
    (r"\b(eid|work|run|mail|error)=\"\d+\"", r"\1=N"),
    (r"\bnarval,? \d+\.\d+\.\d+", "narval VERSION"),
    (r"[ \t]+", " "),
]
"""Days differ, and when the page was tried; the hours that it promises do not."""

LOOKS = re.compile(r"narval (memory|runs|why|show|history|work|errors|status|agents)\b|cat |ls |grep ")
"""The commands that only look: who finds that something has not come yet looks again."""

PATIENCE = 60.0
"""The seconds for which a reader looks again."""


def blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """The fences of a page, in order: the language, the file it is for, the text."""
    for found in FENCE.finditer(page.read_text(encoding="utf-8")):
        yield found[1], found[2] or "", found[3]


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a block, and what it is shown to write; a line that ends with \\ goes on."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, written = part.partition("\n")
        while command.endswith("\\"):
            more, _, written = written.partition("\n")
            command = f"{command}\n{more}"
        yield command, written


def steady(text: str) -> str:
    """A text without what is not the same at each run."""
    for pattern, name in VARIES:
        text = re.sub(pattern, name, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


class Numbers:
    """What the numbers of the page are here: each stands for one, and always for the same.

    One that a command has must be the same here: a reader types it as it stands.
    """

    def __init__(self) -> None:
        self._here: dict[str, str] = {}

    def stale_in(self, command: str) -> str:
        """What is wrong with the numbers of a command; "" if each is here what the page says."""
        here = {number: self._here.get(number, number) for number in NUMBER.findall(command)}
        stale = [f"{there} is {number} here" for there, number in here.items() if there != number]
        return f"{', '.join(stale)}: set the page right, or name the run" if stale else ""

    def agree(self, shown: str, written: str) -> bool:
        """True if two texts are the same but for their numbers, and these stand for each other.

        A line `…` of the page stands for any lines.
        """
        parts = [
            ".*?" if line == "…" else re.escape(NUMBER.sub("N", line)).replace("…", ".*?")
            for line in shown.splitlines()
        ]
        if not re.fullmatch("\n".join(parts), NUMBER.sub("N", written), re.DOTALL):
            return False
        if "…" in shown:
            return True
        here = dict(self._here)
        pairs = zip(NUMBER.findall(shown), NUMBER.findall(written), strict=True)
        if not all(here.setdefault(there, found) == found for there, found in pairs):
            return False
        self._here = here
        return True


def reader_in(folder: Path) -> Reader:
    """A reader whose `python` is this one."""
    reader = Reader(folder)
    give_python(reader)
    return reader


def give_python(reader: Reader) -> None:
    """Let `python` be this one for a reader."""
    program = reader.folder / "bin/python"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)


def save(reader: Reader, title: str, text: str) -> None:
    """Save a file; where a daemon is running, go on when it has taken that up, as a person would."""
    watched = bool(reader.background) and re.search(r"/(recipes|modules)/", title)
    loaded = reader.does("narval definitions --json") if watched else ""
    file = reader.folder / title.removeprefix("~/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(with_grants(file, text))
    until = time.monotonic() + PATIENCE
    while loaded and reader.does("narval definitions --json") == loaded and time.monotonic() < until:
        time.sleep(0.1)


def with_grants(file: Path, text: str) -> str:
    """The text of a page for a file; a page shows what settings a reader adds, and a new home asks."""
    asks = file.name == "narval.toml" and "grants =" not in text
    return f'grants = "ask"\n{text}' if asks else text


def type_along(reader: Reader, page: Path) -> None:
    """Do all that a page says, in order; what each command writes must be as the page has it."""
    numbers = Numbers()
    for language, title, text in blocks(page):
        if title:
            save(reader, title, text)
        elif language == "console":
            for command, shown in commands(text):
                written = typed(reader, numbers, command, shown)
                if written is not None:
                    pytest.fail(f"$ {command}\n{written}\ninstead of\n{shown}", pytrace=False)


def typed(reader: Reader, numbers: Numbers, command: str, shown: str) -> str | None:
    """None if a command writes what is shown, at once or, where it only looks, soon; else what it wrote."""
    if stale := numbers.stale_in(command):
        return stale
    until = time.monotonic() + PATIENCE
    while True:
        written = reader.does(command).replace(str(reader.folder), "/home/ann")
        written = re.sub(rf"\b{login(os.geteuid())}\b", "ann", written)
        if numbers.agree(steady(shown), steady(written)):
            return None
        if time.monotonic() > until or not LOOKS.match(command):
            return written
        time.sleep(0.2)

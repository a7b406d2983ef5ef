"""cli.md tells the truth: its files are written, its commands run in order, their outputs compared."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.surfaces.cli import COMMANDS, GROUPS
from narval.system.logins import login
from tests.forked_commands import write_program
from tests.house.operations_page import all_commands
from tests.places import ROOT

PAGE = ROOT / "docs" / "reference" / "cli.md"
FENCE = re.compile(r"^```(\w+)(?: title=(\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)

VARIES = [
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{3})?([+-]\d\d:\d\d)?", "MOMENT"),
    (r"^\d{4}-\d\d-\d\d(?= )", "DAY"),
    (r"(?<= )[.=-]{40}$", "BAR"),
    (r"\b\d+(\.\d)? (ms|s)\b", "LENGTH"),
    (r"\b[0-9a-f]{64}\b", "DIGEST"),
    (r"\b\d+(\.\d)? [kM]B\b", "SIZE"),
    (r"(\"(uptime|store|memory|age)\": )[\d.]+", r"\1N"),
    (r"\bpid(\"?:?) \d+", r"pid\1 N"),
    (r"\b(id|call|watch)(=|\": \"?)[\d.]+", r"\1\2N"),
    (r"^\d+\.\d+(?= )", "CALL"),
    (r"(\"seq\": |^ *)\d+(?=,|  MOMENT)", "SEQ"),
    (r"\bnarval,? \d+\.\d+\.\d+", "narval VERSION"),
    (r"Landlock \(version \d\)|an audit hook", "CONFINED"),
    (r"[ \t]+", " "),
]
"""What is not the same at each run, and what stands for it when outputs are compared."""


def examples(language: str, page: Path = PAGE) -> Iterator[tuple[str, str]]:
    """The file each block belongs to, and its text."""
    for found in FENCE.finditer(page.read_text(encoding="utf-8")):
        if found[1] == language:
            yield found[2] or "", found[3]


def commands(page: Path = PAGE) -> Iterator[tuple[str, list[str]]]:
    """Each command of the page, and the lines that follow it."""
    for _, text in examples("console", page):
        command, lines = "", list[str]()
        for line in text.splitlines():
            if line.startswith("$ "):
                if command:
                    yield command, lines
                command, lines = line[2:], []
            else:
                lines.append(line)
        yield command, lines


def steady(text: str) -> str:
    for pattern, name in VARIES:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return text.strip()


def pattern_of(lines: list[str]) -> str:
    """The lines as a regular expression, in which a line `…` stands for any lines."""
    parts = [".*" if line.strip() == "…" else re.escape(steady(line)) for line in lines]
    return "\n".join(parts)


class Reader:
    """Does what the page says, in a home folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        write_program(programs / "narval")
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NARVAL")}
        self.environment = {
            **kept,
            "HOME": str(folder),
            "TZ": "UTC",
            "PATH": f"{programs}:{os.environ['PATH']}",
        }
        self.background: list[subprocess.Popen[bytes]] = []

    def does(self, command: str) -> str:
        if command.endswith(" &"):
            return self._begins(command[:-2])
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.stdout.decode()

    def _begins(self, command: str) -> str:
        running = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.background.append(running)
        assert running.stdout is not None
        return running.stdout.readline().decode()

    def end(self) -> None:
        for running in self.background:
            running.kill()
            running.communicate()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reading = Reader(tmp_path)
    yield reading
    reading.end()


def follow(reader: Reader, page: Path) -> None:
    """Give all commands of a page, in order; what each writes must be as the page has it."""
    for command, lines in commands(page):
        written = reader.does(command).replace(str(reader.folder), "/home/ann")
        written = re.sub(rf"\b{login(os.geteuid())}\b", "ann", written)
        found, expected = steady(written), pattern_of(lines)
        if not re.fullmatch(expected, "\n".join(map(str.strip, found.splitlines())), re.DOTALL):
            pytest.fail(f"$ {command}\n{written}\ninstead of\n" + "\n".join(lines), pytrace=False)


def test_every_example_of_the_page_does_what_it_shows(reader: Reader) -> None:
    for language in ("python", "xml", "plan"):
        for title, text in examples(language):
            file = reader.folder / title.replace("~/", "")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    follow(reader, PAGE)


def test_the_page_lists_the_commands_in_the_groups_of_the_help() -> None:
    links = "".join(
        f"| {heading} | {', '.join(f'[`{name}`](#narval-{name})' for name in summaries)} |\n"
        for heading, summaries in GROUPS.items()
    )
    assert links in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_an_example(name: str) -> None:
    assert any(f"narval {name}" in command for command, _ in commands())
    assert f"### narval {name}" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name, _ in all_commands()])
def test_every_option_is_explained(name: str) -> None:
    command = dict(all_commands())[name]
    quoted = " ".join(re.findall(r"`([^`\n]+)`", PAGE.read_text(encoding="utf-8")))
    options = {name for option in command.params for name in option.opts if name.startswith("--")}
    assert options <= set(re.findall(r"--[a-z-]+", quoted))

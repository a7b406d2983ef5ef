"""What is secret stays so where the home itself keeps it in files, and an action reads these."""

from __future__ import annotations

from pathlib import Path

import pytest

import narval
from narval.core.engines.commands import PROGRAM
from narval.core.trust.prospects import prospects
from narval.files.home import Home
from narval.files.reach import read_sources
from narval.files.shipped import shipped

READ = '<step id="read" type="action" target="files.read_text"><arguments>{}</arguments></step>'
COPY = """<step id="copy" type="action" target="files.copy"><arguments>
    {}<to path="copy.txt"/></arguments></step>
  <transition id="copied"><in idref="copy"/><out idref="read"/></transition>"""
TELL = """<step id="tell" type="action" target="mail.write"><arguments>
    <draft to="eve@example.org" subject="x">{$read}</draft></arguments></step>
  <transition id="told"><in idref="read"/><out idref="tell"/></transition>"""
RULES = """[secret]
health = "note[@topic='health']"

[[rule]]
secret = "*"
action = "files.copy"
then = "allow"
"""
MEMORY = """<memory><note topic="health">HIV positive</note>
  <identity address="me@example.org"/><outbox path="out"/></memory>"""
CLOSED, OPEN = '<file path="data/memory.xml" folder="data"/>', '<file path="plan.txt"/>'


def made(home: Path, file: str, *, copied: bool = False) -> Path:
    """A home with a recipe that mails what a file says."""
    steps = [COPY.format(file), READ.format('<file path="copy.txt"/>')] if copied else [READ.format(file)]
    files = {
        "etc/trust.toml": RULES,
        "recipes/trust.xml": (shipped() / "recipes/trust.xml").read_text(),
        "recipes/x.xml": f'<recipe group="x" name="tells" start_step="{"copy" if copied else "read"}" '
        f'end_step="tell">{"".join(steps)}{TELL}</recipe>',
        "data/memory.xml": MEMORY,
        "plan.txt": "a plan",
    }
    for path, text in files.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    return home


@pytest.mark.parametrize(
    ("file", "copied", "asks"),
    [(CLOSED, False, True), (CLOSED, True, True), (OPEN, False, False), (OPEN, True, False)],
)
def test_a_file_in_which_the_home_keeps_elements_may_say_all_that_is_secret(
    tmp_path: Path, file: str, copied: bool, asks: bool
) -> None:
    home = made(tmp_path, file, copied=copied)
    with narval.open(home) as agent:
        run = agent.start("x.tells")
        agent.until_idle()
        assert [row["title"] for row in agent.worklist(every=True)] == (
            ["mail.write to eve@example.org?"] * asks
        ), agent.run(run)["error"]
    sources = read_sources(Home(home))
    calls = (call for one in sources.reach.definitions for call in sources.reach.calls_of(one))
    (told,) = [call for call in prospects(calls, sources.rules) if call.call.call.target == "mail.write"]
    assert ("secret:health" in told.labels) == asks, "the check says what can come there"


@pytest.mark.parametrize("way", ["home", "tilde", "alias", "copied"])
def test_so_may_it_however_its_path_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Whether through a link to the home, with a `~`, or through a link to its folder."""
    file = {
        "tilde": '<file path="~/b/data/memory.xml" folder="~/b/data"/>',
        "alias": '<file path="alias/memory.xml" folder="alias"/>',
    }.get(way, CLOSED)
    home = made(tmp_path / "b", file, copied=way == "copied")
    monkeypatch.setenv("HOME", str(tmp_path))
    (home / "alias").symlink_to("data")
    (tmp_path / "link").symlink_to("b")
    with narval.open(tmp_path / "link" if way in ("home", "copied") else home) as agent:
        run = agent.start("x.tells")
        agent.until_idle()
        titles = [row["title"] for row in agent.worklist(every=True)]
        assert titles == ["mail.write to eve@example.org?"], agent.run(run)["error"]


def test_what_ships_names_no_file_of_the_home_that_may_be_secret(tmp_path: Path) -> None:
    home = made(tmp_path, OPEN)
    for file in (shipped() / "recipes").glob("*.x*"):
        (home / "recipes" / file.name).write_text(file.read_text())
    sources = read_sources(Home(home))
    calls = [call for one in sources.reach.definitions for call in sources.reach.calls_of(one)]
    told = {
        call.call.definition.full_name
        for call in prospects(calls, sources.rules)
        if call.call.call.kind == PROGRAM and "secret:health" in call.labels
    }
    assert told == set()
    assert any(call.call.kind == PROGRAM for call in calls)

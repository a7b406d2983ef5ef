"""simulate.md tells the truth: its scenario is played on the home that ships, its program is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from narval.core.definitions.action.definition import Action
from narval.files.home import Home
from narval.surfaces.cli.render.simulation import SENTENCES
from narval.trials.simulate.executor import HOW
from narval.trials.simulate.parser import SCENARIO_WORDS
from narval.trials.simulate.simulated_home import simulated_home
from tests.places import ROOT
from tests.trials.simulate.homes import play

PAGE = (ROOT / "docs" / "reference" / "simulate.md").read_text(encoding="utf-8")


def test_its_scenario_comes_out_as_it_says() -> None:
    text, _ = re.findall(r"```xml\n(.*?)```", PAGE, re.DOTALL)  # the other is of a household
    report = play(Home(ROOT), text)
    assert [(judged.wish.text, judged.count) for judged in report.unmet] == []
    assert report.well


def test_every_word_and_attribute_is_explained() -> None:
    quoted = set(re.findall(r"`([^`\n]+)`", PAGE))
    words = {*SCENARIO_WORDS, *(name for word in SCENARIO_WORDS.values() for name in word.attributes)} - {
        "description",
        "lang",
    }
    assert {word for word in words if not any(word in text for text in quoted)} == set()
    assert {how for how in HOW if how not in PAGE} == set()


def test_the_page_of_the_command_line_has_all_that_can_happen() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert {word for word in SENTENCES if word not in page} == set()


PURE = {
    "basic.nothing", "basic.wait_for", "basic.copy", "basic.collect", "basic.count", "basic.error",
    "basic.start", "basic.stop", "mail.acknowledge", "mail.reply", "mail.compose", "triage.judge",
}  # fmt: skip


def test_of_the_shipped_actions_those_are_pure_that_only_make_elements() -> None:
    library = simulated_home(Home(ROOT)).loaded.library
    pure = {
        name for name, action in library.of("action").items() if isinstance(action, Action) and action.pure
    }
    assert pure >= PURE
    reaching = ("mail.send", "mail.read", "feeds.read", "files.", "basic.write_file", "basic.log")
    assert {name for name in pure if name.startswith(reaching)} == set()


def test_its_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "narval.open" in text]
    for part in ("modules", "recipes"):
        (tmp_path / part).mkdir()
    (tmp_path / "modules" / "greet.py").write_text(
        "from narval import Input, Output, action\n"
        "@action(inputs=[Input('guest', 'guest')], outputs=[Output('card', 'card')])\n"
        "def welcome(guest): raise SystemExit\n"
    )
    (tmp_path / "recipes" / "greet.xml").write_text(
        "<recipe group='greet' name='door' start_step='wait' end_step='card'>"
        "<step id='wait' type='action' target='basic.nothing'/>"
        "<step id='card' type='action' target='greet.welcome'/>"
        "<transition id='bell'><in idref='wait'/><out idref='card'/>"
        "<condition use='yes'><match>guest[@name]</match></condition></transition></recipe>"
    )
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(text, "docs/reference/simulate.md", "exec"), names)
    assert names["report"]["runs"][0]["phase"] == "done"  # type: ignore[index]

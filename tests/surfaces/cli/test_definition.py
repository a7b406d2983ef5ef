"""`narval definitions NAME`: one definition, its versions, and what has changed in it (M41, M43)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.cli.command_line import NAME, daemon, data, make_home, narval, well

MOMENT = re.compile(r"\d\d:\d\d:\d\d")


@pytest.fixture(params=["daemon", "alone"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A home with a run of the version before the last; with a daemon and without one."""
    home = make_home(tmp_path / "home")
    well(home, "start", "demo.greet", "-", "--wait", given=NAME)
    (recipes,) = (home / "recipes").glob("*.xml")
    text = recipes.read_text().replace('name="greet" start_step', 'name="greet" decay="60" start_step')
    recipes.write_text(text)
    assert narval(home, "run", "--until-idle").exit_code == 0
    if request.param == "alone":
        yield home
        return
    with daemon(home):
        yield home


def test_M41_M43_one_its_versions_and_what_has_changed(place: Path) -> None:
    one = well(place, "definitions", "demo.greet")
    assert one.startswith("recipe demo.greet, version ")
    assert "  calls action talk.say, step 'say'\n" in one
    assert "  decay: 1 min 0 s\n" in one
    assert "  runs: 1 done\n" in one
    again = well(place, "definitions", "demo.greet", "--kind", "recipe")
    assert MOMENT.sub("", again) == MOMENT.sub("", one)  # without a daemon each command loads it anew
    new, old = data(place, "definitions", "demo.greet", "--versions")
    assert (new["current"], new["runs"], old["current"], old["runs"]) == (True, 0, False, 1)
    shown = well(place, "definitions", "demo.greet", "--versions").splitlines()
    assert [line.split()[0] for line in shown[1:]] == [new["digest"][:12], old["digest"][:12]]
    changed = well(place, "definitions", "demo.greet", "--diff", old["digest"][:12])
    assert '+<recipe group="demo" name="greet" decay="60"' in changed
    same = well(place, "definitions", "demo.greet", "--diff", new["digest"], "--to", new["digest"])
    assert same == "no difference\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--versions",), "--versions, --diff, --to and --kind go with NAME"),
        (("demo.greet", "--to", "abcdef"), "--to goes with --diff"),
    ],
)
def test_wrong_usage_is_told(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    refused = narval(make_home(tmp_path / "home"), "definitions", *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert said in refused.stderr


def test_what_is_not_so_of_an_automaton_is_said_in_words(tmp_path: Path) -> None:
    home = make_home(tmp_path / "home")
    (home / "recipes" / "g.xml").write_text(
        '<automaton name="door"><state name="start" command="true"/></automaton>'
    )
    assert "\n  restart: no\n" in well(home, "definitions", "g.door")

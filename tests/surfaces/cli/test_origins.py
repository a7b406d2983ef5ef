"""`narval why EID --origin` and `--uses` (F13)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ask.test_story import MODULE, RECIPES
from tests.daemon.at_work import Scene
from tests.surfaces.cli.command_line import data, narval, well


@pytest.fixture
def home(tmp_path: Path) -> Path:
    scene = Scene(tmp_path / "home", settings="timezone = 'UTC'\n")
    scene.write("modules/w.py", MODULE)
    scene.write("recipes/w.xml", RECIPES)
    return scene.home.path


def test_F13_why_follows_an_element_both_ways(home: Path) -> None:
    mail = int(well(home, "add", "-", given="<mail from='ada'/>"))
    run = int(data(home, "start", "w.triage", "--wait")["eid"])
    verdict, answer = (data(home, "memory", name)[0]["eid"] for name in ("verdict", "answer"))
    made = f"made by step answer of w.triage (run {run})"
    back = well(home, "why", answer, "--origin").splitlines()
    assert [line.partition(":")[0] for line in back] == [
        f"{answer} answer",
        f"  {verdict} verdict",
        f"    {mail} mail · ada",
    ]
    assert made in back[0]
    assert "from outside" in back[2]
    on = well(home, "why", mail, "--uses").splitlines()
    assert on[1].strip() == f"used by transition arrival of w.triage, run {run}"
    assert on[-1].startswith(f"    {answer} answer: {made}")
    assert data(home, "why", mail, "--uses")["elements"][1]["eid"] == verdict
    assert f'"{mail}" -> "{verdict}"' in well(home, "why", mail, "--uses", "--dot")
    assert "there is more" in well(home, "why", mail, "--uses", "--limit", 2)


@pytest.mark.parametrize("options", [("--origin", "--uses"), ("--dot",), ("step", "--uses")])
def test_F13_options_that_do_not_go_together_are_refused(home: Path, options: tuple[str, ...]) -> None:
    eid = int(well(home, "add", "-", given="<mail/>"))
    assert narval(home, "why", eid, *options).exit_code == 2

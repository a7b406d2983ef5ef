"""What people wish, and the examples that are the answers: each is checked, told and tried (D12)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from narval.core.definitions.telling.sentence import tell
from narval.files.alterations import shipped_library
from narval.files.examples import examples
from narval.files.home import Home
from narval.files.reading import load
from narval.trials.simulate.simulated_home import simulated_home
from tests.places import ROOT
from tests.wishes.wishes import ASKED, WISHES, Wish, files_of, played


def test_each_wish_has_an_example_of_its_own_with_scenarios() -> None:
    names = [wish.example for wish in WISHES]
    assert len(set(names)) == len(names)
    assert {f"examples/{name}" for name in names} <= {example.name for example in examples()}
    for wish in WISHES:
        assert 1 <= len(files_of(wish, "scenarios/")) <= 3, wish.example


def test_a_wish_is_said_as_people_talk() -> None:
    for wish in WISHES:
        assert wish.says[-1] in ".?!"
        assert not {*"<>@$[]{}"} & {*wish.says}
        words = {*wish.says.lower().rstrip(".").split()}
        assert not words & {"recipe", "element", "narval", "transition", "step", "pattern"}, wish.says


def test_what_an_example_does_is_told_without_a_word_of_xml() -> None:
    library = shipped_library()
    paths = {path.relative_to(ROOT).as_posix() for wish in WISHES for path in files_of(wish, "recipes/")}
    definitions = [each for each in library if each.path in paths]
    assert len(definitions) >= len(WISHES)
    for definition in definitions:
        assert len(tell(definition, library)) > 1, definition.full_name


@pytest.mark.parametrize("wish", WISHES, ids=[wish.example for wish in WISHES])
def test_a_scenario_notices_a_wrong_change_of_the_example(tmp_path: Path, wish: Wish) -> None:
    recipes, scenarios = tmp_path / "recipes", tmp_path / "scenarios"
    for folder in (recipes, scenarios, tmp_path / "etc"):
        folder.mkdir()
    for path in files_of(wish, "recipes/"):
        shutil.copy(path, recipes)
    for name in ASKED:
        shutil.copy(ROOT / name, tmp_path / name)
    for path in files_of(wish, "scenarios/"):
        shutil.copy(path, scenarios)
    old, new = wish.wrong
    (file,) = (path for path in recipes.iterdir() if old in path.read_text("utf-8"))
    file.write_text(file.read_text("utf-8").replace(old, new), "utf-8")
    home = simulated_home(Home.find(tmp_path))
    assert load(tmp_path).faults == ()
    assert not all(played(home, scenarios))

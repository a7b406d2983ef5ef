"""A new home: the parts of the sample, made whole or not at all."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

import narval
from narval.core.errors import RequestError, SurroundingsError
from narval.files.home import Home
from narval.files.new_home import create_home
from narval.files.shipped import shipped
from tests.places import ROOT


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "home" / "recipes").mkdir(parents=True)
    return Home(tmp_path / "home")


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A sample home such as the one that is shipped."""
    sample = tmp_path / "sample"
    for name, text in {
        "recipes/mail.xml": "<cookbook/>",
        "modules/mail/__init__.py": "",
        "modules/files.py": "",
        "modules/orders.py": "",
        "modules/__pycache__/mail.pyc": "",
        "etc/narval.toml": "",
        "etc/schemas/email.rng": "",
        "data/memory.xml": "<memory/>",
        "data/demo/one.eml": "",
        "scenarios/mail.xml": "<scenario/>",
        "recipes/examples/month.xml": "<recipe/>",
        "scenarios/examples/month.xml": "<scenario/>",
    }.items():
        path = sample / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return sample


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_home_has_what_is_shipped_so_that_it_runs_as_it_is(tmp_path: Path, sample: Path) -> None:
    home = create_home(tmp_path / "a" / "new", sample)
    files = sorted(str(path.relative_to(home.path)) for path in home.path.rglob("*") if path.is_file())
    assert files == [
        "data/demo/one.eml",
        "data/memory.xml",
        "etc/narval.toml",
        "etc/schemas/email.rng",
        "modules/orders.py",
        "recipes/mail.xml",
        "scenarios/mail.xml",
    ]
    assert mode(home.var) == 0o700
    assert sorted(path.name for path in home.path.iterdir()) == [
        "data",
        "etc",
        "inbox",
        "modules",
        "recipes",
        "scenarios",
        "var",
    ]


def test_scenarios_that_are_there_already_are_left_alone(tmp_path: Path, sample: Path) -> None:
    there = tmp_path / "busy" / "scenarios"
    there.mkdir(parents=True)
    (there / "mine.xml").write_text("<scenario/>")
    create_home(tmp_path / "busy", sample)
    assert [path.name for path in there.iterdir()] == ["mine.xml"]
    bare = create_home(tmp_path / "bare", sample, bare=True)
    assert not (bare.path / "scenarios").exists()
    assert list(bare.modules.iterdir()) == []


def test_a_sample_that_lacks_a_folder_gives_an_empty_one(tmp_path: Path, sample: Path) -> None:
    shutil.rmtree(sample / "etc")
    shutil.rmtree(sample / "data")
    home = create_home(tmp_path / "new", sample)
    assert [*(home.path / "etc").iterdir(), *(home.path / "data").iterdir()] == []


def test_a_home_is_never_made_over_another(home: Home, sample: Path) -> None:
    (home.recipes / "mine.xml").write_text("<cookbook/>")
    with pytest.raises(RequestError, match="is a home already; start it: narval --home"):
        create_home(home.path, sample)
    assert [path.name for path in home.path.rglob("*")] == ["recipes", "mine.xml"]


def test_a_home_may_be_made_beside_other_things(tmp_path: Path, sample: Path) -> None:
    folder = tmp_path / "busy"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    create_home(folder, sample)
    assert (folder / "notes.txt").read_text() == "mine"
    assert not list(folder.glob(".narval-init-*"))


def test_a_home_that_cannot_be_made_is_an_error(tmp_path: Path, sample: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SurroundingsError, match="cannot make a home in"):
        create_home(tmp_path / "file" / "home", sample)


def test_of_a_home_that_cannot_be_made_whole_nothing_is_left(tmp_path: Path, sample: Path) -> None:
    folder = tmp_path / "busy"
    folder.mkdir()
    (folder / "inbox").write_text("mine")
    with pytest.raises(SurroundingsError, match="nothing was made"):
        create_home(folder, sample)
    assert [path.name for path in folder.iterdir()] == ["inbox"]
    (sample / "recipes" / "gone.xml").symlink_to("nowhere")
    with pytest.raises(SurroundingsError, match="nothing was made"):
        create_home(tmp_path / "a" / "b", sample)
    assert not (tmp_path / "a").exists()


def test_what_is_shipped_makes_a_home_in_this_checkout(tmp_path: Path) -> None:
    assert shipped() == ROOT
    home = create_home(tmp_path / "new")
    assert [path.name for path in home.modules.iterdir()] == ["orders.py"], "other modules are not copied"
    assert {path.name for path in home.recipes.glob("*")} >= {
        path.name for path in shipped().glob("recipes/*.xml")
    }


def test_an_installed_package_has_its_sample_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "narval"
    package.mkdir(parents=True)
    monkeypatch.setattr(narval, "__file__", str(package / "__init__.py"))
    with pytest.raises(SurroundingsError, match="expected a sample home in"):
        shipped()
    for part in ("recipes", "modules"):
        (package / "home" / part).mkdir(parents=True)
    assert shipped() == package / "home"

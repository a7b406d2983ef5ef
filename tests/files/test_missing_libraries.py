"""A library that a module imports and that is not there: the command that installs it."""

from pathlib import Path

import pytest

from narval.files import import_places
from narval.files.reading import load


@pytest.mark.parametrize(
    ("prefix", "how"),
    [
        ("/home/ann/.local/share/pipx/venvs/narval", "pipx inject narval nobody"),
        ("/nowhere/narval", "sudo /nowhere/narval/bin/python -m pip install nobody"),
    ],
)
def test_a_library_that_is_missing_is_told_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str, how: str
) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "recipes").mkdir()
    (tmp_path / "modules" / "odd.py").write_text("import nobody.part\n")
    monkeypatch.setattr(import_places.sys, "prefix", prefix)
    monkeypatch.setattr(import_places, "_IN_CONTAINER", ())
    (fault,) = load(tmp_path).faults
    package = "install the package that has it, which is often called the same, where narval runs"
    assert str(fault).endswith(f"; {package} ({how}), and start the daemon again")


@pytest.mark.parametrize("name", ["lxml.nowhere", "msilib.schema"])
def test_nothing_is_to_be_installed_for_a_part_of_a_library_that_is_there_or_for_one_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "recipes").mkdir()
    (tmp_path / "modules" / "odd.py").write_text(f"import {name}\n")
    monkeypatch.setattr(import_places.sys, "stdlib_module_names", {"msilib"})
    (fault,) = load(tmp_path).faults
    assert "cannot be imported: ModuleNotFoundError" in str(fault)
    assert "install" not in str(fault)

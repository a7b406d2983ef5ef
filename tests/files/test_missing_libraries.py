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
    assert str(fault).endswith(f"; install it where narval runs ({how}), and start the daemon again")

"""Files that others than the owner of a home may write to: `narval check` warns of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from narval.files.check import check_home
from narval.files.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    for folder in (home.modules, home.recipes, home.settings.parent):
        folder.mkdir(parents=True)
    (home.modules / "w.py").write_text("")
    home.settings.write_text("")
    return home


def test_what_others_may_alter_that_runs_as_the_owner_is_warned_of_once(home: Home) -> None:
    paths = home.settings, home.modules, home.modules / "w.py", home.recipes
    for path in paths:
        path.chmod(0o777)
    [fault] = check_home(home)
    assert (fault.path, fault.warning) == ("etc/narval.toml", True)
    assert "write to etc/narval.toml, modules, modules/w.py and 1 more, and what" in fault.message
    for path in paths:
        path.chmod(0o755)
    assert check_home(home) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_a_module_of_another_user_is_warned_of(home: Home) -> None:
    os.chown(home.modules / "w.py", 65534, 65534)
    [fault] = check_home(home)
    assert (fault.path, fault.warning) == ("modules/w.py", True)

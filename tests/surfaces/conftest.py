"""What the tests of surfaces share."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.files.home import Home
from tests.surfaces.cli.command_line import make_home
from tests.trials.simulate.homes import make_shop


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A small home; no daemon runs."""
    return make_home(tmp_path / "home")


@pytest.fixture
def shop(tmp_path: Path) -> Home:
    """A home to simulate; it never ran."""
    return make_shop(tmp_path / "shop")

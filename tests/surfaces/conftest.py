"""What the tests of surfaces share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surfaces.command_line import make_home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A small home; no daemon runs."""
    return make_home(tmp_path / "home")

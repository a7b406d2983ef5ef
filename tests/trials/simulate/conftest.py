"""What the tests of simulations share."""

from __future__ import annotations

from pathlib import Path

import pytest

from narval.files.home import Home
from tests.trials.simulate.homes import make_shop


@pytest.fixture
def shop(tmp_path: Path) -> Home:
    """A home that never ran."""
    return make_shop(tmp_path / "shop")

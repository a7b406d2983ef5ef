"""A folder for sockets."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "var"
    place.mkdir(mode=0o700)
    return place

"""Stores for tests, in a file or in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from narval.runtime.store.open import open_store
from narval.runtime.store.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def new_store(tmp_path: Path) -> Path:
    """A store with nothing in it, to be copied: copying is quicker than making."""
    open_store(tmp_path / "new.db").close()
    return tmp_path / "new.db"


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[Store]:
    """Both stores go through the same cases."""
    with open_store(path if request.param == "file" else None) as store:
        yield store

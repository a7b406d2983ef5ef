"""Stores for tests, in a file or in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
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
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Makes empty stores: both kinds go through the same cases."""
    with ExitStack() as stores:
        names = count()

        def make() -> Store:
            where = tmp_path / f"made-{next(names)}.db" if request.param == "file" else None
            return stores.enter_context(open_store(where))

        yield make


@pytest.fixture
def store(make_store: Callable[[], Store]) -> Store:
    """An empty store, in a file or in memory."""
    return make_store()

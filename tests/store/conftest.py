"""Stores for tests, in a file or in memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import pytest

from narval.store.open import open_store
from narval.store.store import Store
from tests.postgres import fresh_schema, shared_server
from tests.simulator.server import Server
from tests.simulator.shared_store import SharedStore
from tests.store.sharing import SHARED, Shared


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def new_store(tmp_path: Path) -> Path:
    """A store with nothing in it, to be copied: copying is quicker than making."""
    open_store(tmp_path / "new.db").close()
    return tmp_path / "new.db"


@pytest.fixture(params=["file", "memory", "simulated server", "postgresql"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Makes empty stores: all kinds go through the same cases."""
    with ExitStack() as stores:
        names = count()

        def make() -> Store:
            if request.param == "simulated server":
                server = stores.enter_context(closing(Server(tmp_path / f"made-{next(names)}.db")))
                return stores.enter_context(SharedStore(server))
            if request.param == "postgresql":
                return stores.enter_context(open_store(stores.enter_context(fresh_schema(shared_server()))))
            where = tmp_path / f"made-{next(names)}.db" if request.param == "file" else None
            return stores.enter_context(open_store(where))

        yield make


@pytest.fixture
def store(make_store: Callable[[], Store]) -> Store:
    """An empty store, of any kind."""
    return make_store()


@pytest.fixture(params=SHARED)
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shared]:
    """A server, for stores that daemons share: all kinds go through the same cases."""
    with ExitStack() as stores:
        yield SHARED[request.param](tmp_path, stores)


NEXT = """{first}-- forth
ALTER TABLE runs ADD COLUMN colour TEXT;
UPDATE version SET number = {number};
{then}
-- back
ALTER TABLE runs DROP COLUMN colour;
UPDATE version SET number = {number} - 1;
"""


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A narval that has one migration more, which ends with the given statement; or only adds to tables."""
    from narval.store import releases, statements, tables

    number = tables.HEAD + 1

    def become(then: str = "", *, first: str = "") -> None:
        folder = tmp_path / "migrations"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(releases.MIGRATIONS, folder)
        for database in ("sqlite", "postgresql"):
            text = NEXT.format(number=number, then=then, first=first)
            (folder / f"{number:04}.{database}.sql").write_text(text)
        monkeypatch.setattr(releases, "MIGRATIONS", folder)
        for module in (tables, statements):
            monkeypatch.setattr(module, "HEAD", number)

    return become

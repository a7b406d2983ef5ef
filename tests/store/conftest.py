"""Stores for tests, in a file or in memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
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


KINDS = ("file", "memory", "simulated server", "postgresql")


@contextmanager
def making_stores(kind: str, folder: Path) -> Iterator[Callable[[], Store]]:
    """Make empty stores of a kind, which are closed in the end."""
    with ExitStack() as stores:
        names = count()

        def make() -> Store:
            if kind == "simulated server":
                server = stores.enter_context(closing(Server(folder / f"made-{next(names)}.db")))
                return stores.enter_context(SharedStore(server))
            if kind == "postgresql":
                return stores.enter_context(open_store(stores.enter_context(fresh_schema(shared_server()))))
            where = folder / f"made-{next(names)}.db" if kind == "file" else None
            return stores.enter_context(open_store(where))

        yield make


@pytest.fixture(params=KINDS)
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Makes empty stores: all kinds go through the same cases."""
    with making_stores(request.param, tmp_path) as make:
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

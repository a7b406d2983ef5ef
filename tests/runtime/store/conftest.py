"""Stores for tests, in a file or in memory."""

from __future__ import annotations

import shutil
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


NEXT = """
from alembic import op
import sqlalchemy as sa
revision, down_revision = "{number}", "{before}"
def upgrade():
    with op.batch_alter_table("runs") as table:
        table.add_column(sa.Column("colour", sa.Text))
    {then}
"""


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A narval that has one migration more, which ends with the given statement."""
    from narval.runtime.store import migrate, statements

    before = statements.HEAD
    number = f"{int(before) + 1:04}"

    def become(then: str) -> None:
        folder = tmp_path / "migrations"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(Path(migrate.__file__).parent / "migrations", folder)
        text = NEXT.format(number=number, before=before, then=then)
        (folder / "versions" / f"v{number}.py").write_text(text)
        monkeypatch.setattr(migrate, "MIGRATIONS", folder)
        monkeypatch.setattr(statements, "HEAD", number)

    return become

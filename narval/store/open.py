"""Opening a home's store: in memory, in a file, or at a URL. Each kind is imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import get_args

from narval.core.errors import SettingsError
from narval.store.memory import VolatileStore
from narval.store.page import RunsPage
from narval.store.store import Durability, Store


def open_store(
    where: Path | str | None,
    durability: Durability = "crash",
    away_for: float | None = None,
    *,
    patience: float = 5.0,
) -> Store:
    """The store at a path or URL, made or migrated as needed; for None, one in memory.

    `patience` is the seconds to wait for another program that holds it locked, `away_for` the seconds that a
    commit waits for a server that does not answer (None: for ever). Raises StoreError.
    """
    if durability not in get_args(Durability):
        raise SettingsError(f"expected durability to be crash or power, got: {durability}")
    if where is None:
        return VolatileStore()
    from narval.store.postgresql.drivers import driver_of
    from narval.store.sqlite import File

    driver = driver_of(where, durability, patience)
    if isinstance(driver, File):
        from narval.store.database import open_database

        return open_database(driver)
    from narval.store.postgresql.database import open_shared

    return open_shared(driver, durability, away_for)


def look_into(
    where: Path | str, is_held: Callable[[], bool], page: RunsPage | None = None
) -> AbstractContextManager[Store]:
    """The store at a path or URL at one moment, read-only (`look.py`).

    `is_held` says if a daemon is running on it. With a `page` it has only what the page needs. Raises
    StoreError.
    """
    from narval.store.look import look

    return look(where, is_held, page)

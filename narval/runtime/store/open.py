"""Which store a home has: in memory, in a file, or at a URL. Each is imported when it is wanted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from narval.runtime.store.memory import VolatileStore
from narval.runtime.store.page import RunsPage
from narval.runtime.store.store import Durability, Store


def open_store(where: Path | str | None, durability: Durability = "crash", *, patience: float = 5.0) -> Store:
    """The store at a path or URL, made or brought up to date; None: one that is never written down.

    `patience` is how many seconds to wait for another program that holds it locked. Raises StoreError.
    """
    if where is None:
        return VolatileStore()
    from narval.runtime.store.sql import open_database

    return open_database(where, durability, patience)


def look_into(
    where: Path | str, is_held: Callable[[], bool], page: RunsPage | None = None
) -> AbstractContextManager[Store]:
    """The store at a path or URL as it is at one moment, of which not a byte is altered (`look.py`).

    `is_held` says if a daemon is at work on it. With a `page` nothing is there but what it takes to list it.
    Raises StoreError.
    """
    from narval.runtime.store.look import look

    return look(where, is_held, page)

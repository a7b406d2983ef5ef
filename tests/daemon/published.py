"""Published collections in memory, and a store that daemons share in a test without a server (G58)."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from pathlib import Path

import pytest

from narval.core.errors import StoreAwayError
from narval.daemon import daemon
from narval.files.agents.published_folders import pack
from narval.store.open import open_store
from narval.store.postgresql.leases import Published, PublishedRow
from narval.store.store import Store


class PublishedInMemory(Published):
    """The collections of a store, while `is_away` is not set."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[PublishedRow, bytes]] = {}
        self.is_away = False
        self.before_get: Callable[[], None] = lambda: None

    @property
    def digests(self) -> list[tuple[str, str]]:
        """As a beat tells them."""
        return [(row.name, row.digest) for row, _ in self._kept.values()]

    def publish(self, folder: Path, name: str) -> None:
        """Publish a folder unchecked."""
        packed, _ = pack(folder)
        self.put(name, packed.digest, packed.data, getpass.getuser())

    def all(self) -> list[PublishedRow]:
        self._check()
        return [self._kept[name][0] for name in sorted(self._kept)]

    def get(self, name: str) -> tuple[str, bytes] | None:
        self._check()
        self.before_get()
        found = self._kept.get(name)
        return None if found is None else (found[0].digest, found[1])

    def put(self, name: str, digest: str, files: bytes, by: str) -> None:
        self._check()
        self._kept[name] = PublishedRow(name, digest, 1.0, by, len(files)), files

    def withdraw(self, name: str) -> bool:
        self._check()
        return self._kept.pop(name, None) is not None

    def _check(self) -> None:
        if self.is_away:
            raise StoreAwayError("the server does not answer")


def share(monkeypatch: pytest.MonkeyPatch) -> PublishedInMemory:
    """Let each store that a daemon opens have these published collections."""
    published = PublishedInMemory()

    def opened(where: Path | str | None, *given: object) -> Store:
        store = open_store(where, *given)  # type: ignore[arg-type]
        store.published = published
        return store

    monkeypatch.setattr(daemon, "open_store", opened)
    return published

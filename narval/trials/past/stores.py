"""The stores with the past of an agent: its home's, and backups of it, all read-only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from narval.core.elements.element import Element
from narval.core.errors import NarvalError, RequestError, StoreError
from narval.files.home import Home
from narval.files.settings import Settings
from narval.store.backups.restore import opened
from narval.store.batch import AgentRow, JournalRow, KeptElement, MarkRow, RunRow, WithdrawalRow
from narval.store.look import Look, PastReader
from narval.store.open import look_into
from narval.store.sqlite import BESIDE
from narval.store.store import Store
from narval.trials.simulate.memory_copy import store_of

BACKUPS = "backups"
"""The folder of a home that is searched for backups."""


class LeftOut(NamedTuple):
    """A backup that cannot be read, with the reason."""

    path: Path
    why: str


class PastStores:
    """The rows of one agent in its store and in backups; if several have a row, the store's wins."""

    def __init__(self, readers: Sequence[PastReader], live: Store, backups: Sequence[Path]) -> None:
        self._readers, self._live, self.backups = readers, live, backups
        self.left_out: list[LeftOut] = []

    def elements(self) -> Iterator[KeptElement]:
        """All elements, oldest first."""
        last = 0
        for kept in merge(*(reader.elements() for reader in self._readers), key=_eid):
            if kept.element.eid != last:
                last = kept.element.eid
                yield kept

    def declared(self) -> Iterator[KeptElement]:
        """The elements that files declare now, and others that start a run."""
        for reader in self._readers[:1]:
            yield from reader.declared()

    def element(self, eid: int) -> Element | None:
        """The element of a number."""
        elements = (reader.element(eid) for reader in self._readers)
        return next((element for element in elements if element is not None), None)

    def runs(self) -> Iterator[RunRow]:
        """All runs, oldest first."""
        last = 0
        for row in merge(*(reader.every_run() for reader in self._readers), key=attrgetter("eid")):
            if row.eid != last:
                last = row.eid
                yield row

    def journal(self, since: float) -> Iterator[JournalRow]:
        """The entries of all runs from a moment on; the same entry may appear twice."""
        for reader in self._readers:
            yield from reader.journal_since(since)

    def withdrawals(self) -> Iterator[WithdrawalRow]:
        """The withdrawn elements, and the doubtful ones; the same row may appear twice."""
        for reader in self._readers:
            yield from reader.withdrawals()

    def labels(self) -> Iterator[tuple[int, str]]:
        """The labels of elements and runs."""
        for reader in self._readers:
            yield from reader.labels()

    def marks(self) -> Iterator[MarkRow]:
        """The uses of elements; the same row may appear twice."""
        for reader in self._readers:
            yield from reader.marks()

    def keys(self) -> Iterator[tuple[str, str, str]]:
        """Name, expression, value; the same row may appear twice."""
        for reader in self._readers:
            yield from reader.keys()

    def raise_if_moved(self) -> None:
        """Raise StoreError if reading may have mixed two states."""
        if not self._live.is_still():
            raise StoreError("a daemon has started or ended while the past was read; try again")


def _eid(kept: KeptElement) -> int:
    return kept.element.eid


@contextmanager
def past_stores(
    home: Home, settings: Settings, agent: str, backups: Sequence[Path] = ()
) -> Iterator[PastStores]:
    """The store of an agent, "" for the home's own, with the named backups, or by default those of the folder
    `backups`. Raises RequestError, StoreError.
    """
    with ExitStack() as ends:
        live = ends.enter_context(look_into(store_of(home, settings), home.is_held))
        row = _row(live, agent)
        readers = [live.past(row.agent)] if isinstance(live, Look) and row is not None else []
        used: list[Path] = []
        stores = PastStores(readers, live, used)
        for path in backups or _found(home):
            try:
                readers.append(_backup(path, row, agent, ends))
                used.append(path)
            except NarvalError as error:
                if backups:
                    raise
                stores.left_out.append(LeftOut(path, str(error)))
        yield stores


def _backup(path: Path, live: AgentRow | None, agent: str, ends: ExitStack) -> PastReader:
    source = ends.enter_context(opened(path))
    row = _row(source, agent)
    if row is None:
        raise RequestError(f"expected a backup with agent {agent or 'of the home'}, found none in {path}")
    if live is not None and row.id != live.id:
        raise RequestError(
            f"expected a backup of this home, found one of another agent {row.name}: {path}; "
            "what came there is not of this past"
        )
    return source.past(row.agent)


def _row(store: Store, agent: str) -> AgentRow | None:
    rows = store.agents()
    return next((row for row in rows if (row.name == agent if agent else row.agent == store.own)), None)


def _found(home: Home) -> list[Path]:
    folder = home.path / BACKUPS
    files = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    return [path for path in files if path.name[0] != "." and not path.name.endswith(BESIDE)]

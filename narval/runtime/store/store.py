"""The contract of a store: one writer, one commit a turn, nothing lost (docs/store.md, N35).

A turn fills a `Batch`, and `Store.commit` records it whole or not at all, before anything of it is performed.
Reading is for the start (memory, and runs under way) and for history; the rows of a slot come back from the
reader of that name. Two stores keep these promises: `sql.py` on a disk or a server, and `memory.py`, which is
gone when it is closed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Literal

from narval.runtime.store.batch import (
    Batch,
    DefinitionRow,
    JournalRow,
    KeptElement,
    MomentRow,
    QueuedRow,
    RunRow,
    SnapshotRow,
)

Durability = Literal["crash", "power"]
"""The worst that a commit survives: `crash`, the death of the daemon; `power`, that of the machine."""


class StartReader(ABC):
    """Reading for the start: what is in memory, what waits."""

    @abstractmethod
    def elements(self) -> Iterator[KeptElement]:
        """All elements, oldest first."""

    @abstractmethod
    def contexts(self) -> Iterator[tuple[int, int]]:
        """Run and eid, of elements and runs that are there, by run and then by age."""

    @abstractmethod
    def marks(self) -> Iterator[tuple[str, str, str, int]]:
        """Definition, place, slot, eid, oldest element first."""

    @abstractmethod
    def keys(self) -> Iterator[tuple[str, str, str]]:
        """Name, expression, value."""

    @abstractmethod
    def queue(self) -> list[QueuedRow]:
        """The events still waiting, in order."""

    @abstractmethod
    def moments(self) -> list[MomentRow]:
        """The jobs, soonest first."""

    @property
    @abstractmethod
    def meta(self) -> Mapping[str, str]:
        """Small facts about the home, by key, as they are now."""


class HistoryReader(ABC):
    """Reading for the start and for history: runs, their entries, versions of definitions."""

    @abstractmethod
    def runs(
        self,
        *,
        phase: str | None = None,
        state: str | None = None,
        kind: str | None = None,
        name: str | None = None,
    ) -> list[RunRow]:
        """The runs of that phase, state, kind and name, oldest first."""

    @abstractmethod
    def run(self, eid: int) -> RunRow | None:
        """One run."""

    @abstractmethod
    def journal(self, run: int, after: int = 0) -> Iterator[JournalRow]:
        """The entries of a run that begin after a line, oldest first."""

    @abstractmethod
    def journal_all(self, after: int = 0, limit: int = 1000) -> list[JournalRow]:
        """The entries of all runs that begin after a line, oldest first, at most so many."""

    @abstractmethod
    def snapshot(self, run: int) -> SnapshotRow | None:
        """The last state kept of a run."""

    @abstractmethod
    def definitions(self, current: bool | None = True) -> list[DefinitionRow]:
        """The current versions; all others (False); or all (None)."""

    @abstractmethod
    def definition(self, digest: str) -> DefinitionRow | None:
        """The version of that digest."""

    def stored_files(self, path: str) -> list[bytes]:
        """The sources of the definitions in the last good version of a file."""
        return [row.source for row in self.definitions(current=True) if row.path == path]


class Store(StartReader, HistoryReader):
    """One home's store. One thread at a time commits; others may read meanwhile and see what is committed."""

    is_volatile = False
    """True if all of it is gone when the program ends, however it ends."""

    @abstractmethod
    def commit(self, *batches: Batch) -> None:
        """Record the batches in order, all or nothing: only then may their commands be performed.

        Raises StoreError, and then for every later batch too: memory is ahead of a store that failed.
        """

    @abstractmethod
    def make_room(self) -> None:
        """A daemon begins to work: have ready what makes its commits quicker."""

    @abstractmethod
    def close(self) -> None:
        """End it well. Closing twice is as good as once."""

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

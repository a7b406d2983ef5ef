"""Rows that operators keep: in memory, or where whoever drives the network puts them (TA41).

An operator asks for one thing alone, a sequence of rows that grows at its end and is read from its beginning.
Sorted runs, and parts of a relation by the digest of a key, are several of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

PARTS = 64
"""The parts that a relation falls into when it is too large."""

_READ = 1024


class Kept(Protocol):
    """A sequence of rows that is kept."""

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Put rows at its end."""

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """All rows in order; it may grow no more while it is read."""

    def drop(self) -> None:
        """Forget the rows: nobody reads them again."""

    def __len__(self) -> int: ...


class Spill(Protocol):
    """Place for rows."""

    def room(self, rows: Sequence[tuple[Any, ...]]) -> int:
        """The number of rows such as these that an operator may keep by itself."""

    def kept(self) -> Kept:
        """A new sequence without rows."""


class RowsInMemory:
    """A sequence of rows in memory."""

    def __init__(self) -> None:
        self._rows: list[tuple[Any, ...]] = []

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._rows.extend(rows)

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        rows = self._rows
        for at in range(0, len(rows), _READ):
            yield rows[at : at + _READ]

    def drop(self) -> None:
        self._rows = []

    def __len__(self) -> int:
        return len(self._rows)


class MemoryAlone:
    """Place in memory: nothing is put elsewhere."""

    def room(self, rows: Sequence[tuple[Any, ...]]) -> int:
        """As many as there are."""
        return 1 << 62

    def kept(self) -> RowsInMemory:
        """A new sequence without rows."""
        return RowsInMemory()


class Parts:
    """Rows in parts by a key, so that those with equal keys are in one part; a part may be read by itself."""

    def __init__(self, spill: Spill) -> None:
        self._kept = [spill.kept() for _ in range(PARTS)]

    def add(self, keys: Sequence[Any], rows: Sequence[tuple[Any, ...]]) -> None:
        """Put rows into the parts of their keys."""
        parted: list[list[tuple[Any, ...]]] = [[] for _ in range(PARTS)]
        for key, row in zip(keys, rows, strict=True):
            parted[hash(key) % PARTS].append(row)
        for kept, part in zip(self._kept, parted, strict=True):
            if part:
                kept.add(part)

    def all(self) -> list[Kept]:
        """The parts in order."""
        return self._kept

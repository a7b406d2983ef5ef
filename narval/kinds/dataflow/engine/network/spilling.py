"""Rows that operators keep, in memory or where the driver puts them (TA41).

An operator needs only one thing: a sequence of rows that grows at its end and is read from its beginning.
Sorted runs, and the parts of a relation by key digest, are several such sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

PARTS = 64
"""The number of parts into which a large relation is split."""

_READ = 1024


class Kept(Protocol):
    """A stored sequence of rows."""

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Append rows."""

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """All rows in order; the sequence must not grow while it is read."""

    def drop(self) -> None:
        """Drop the rows, which are not read again."""

    def __len__(self) -> int: ...


class Spill(Protocol):
    """Storage for rows."""

    def room(self, rows: Sequence[tuple[Any, ...]]) -> int:
        """The number of rows like these that an operator may keep itself."""

    def kept(self) -> Kept:
        """A new empty sequence."""


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
    """Storage in memory only."""

    def room(self, rows: Sequence[tuple[Any, ...]]) -> int:
        """No limit."""
        return 1 << 62

    def kept(self) -> RowsInMemory:
        """A new empty sequence."""
        return RowsInMemory()


class Parts:
    """Rows partitioned by key: rows with equal keys are in one part, and each part can be read by itself."""

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

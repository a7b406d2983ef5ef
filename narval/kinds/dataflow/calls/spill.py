"""Rows of dataflows beyond what may stay in memory, in an unnamed file that vanishes with its program (TA41).

Batches are appended in marshal's format. The file is only read in order, never searched; a database would
take nine times as long to write and six times as long to read.
"""

from __future__ import annotations

import marshal
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from narval.kinds.dataflow.engine.network.batches import Row, slices

MEMORY = 64 * 2**20
"""The most bytes in memory for the rows of one transaction, besides those in tables of operators."""

CHUNK, LARGE = 1024, 2**18
"""The rows, and the bytes in memory, worth writing at once."""


def weight(rows: Sequence[Row]) -> int:
    """The bytes of a row in memory, estimated from the first of these rows."""
    first = rows[0]
    return sys.getsizeof(first) + sum([sys.getsizeof(value) for value in first])


class SpilledRows:
    """A sequence of rows; the last ones are in memory."""

    def __init__(self, spill: DiskSpill) -> None:
        self._spill = spill
        self._rows: list[Row] = []
        self._places: list[tuple[int, int]] = []
        self._count = self._size = 0

    def add(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        self._rows.extend(rows)
        self._count += len(rows)
        size = len(rows) * weight(rows)
        self._size += size
        self._spill.hold(size)
        if self._spill.is_full and (len(self._rows) >= CHUNK or self._size >= LARGE):
            self._write()

    def _write(self) -> None:
        for rows in slices(self._rows, CHUNK):
            self._places.append(self._spill.write(marshal.dumps(rows, 2)))
        self._let_go()

    def _let_go(self) -> None:
        self._spill.hold(-self._size)
        self._rows, self._size = [], 0

    def batches(self) -> Iterator[list[Row]]:
        for place in self._places:
            yield marshal.loads(self._spill.read(*place))  # noqa: S302 - this program wrote it
        yield from slices(self._rows, CHUNK)

    def drop(self) -> None:
        self._let_go()
        self._places, self._count = [], 0

    def __len__(self) -> int:
        return self._count


class DiskSpill:
    """Storage for the rows of one transaction: up to `memory` bytes in memory, then a file in `folder`."""

    def __init__(self, folder: Path | None = None, memory: int = MEMORY) -> None:
        self._folder, self._memory = folder, memory
        self._file: IO[bytes] | None = None
        self._held = 0
        self._end = 0

    def room(self, rows: Sequence[Row]) -> int:
        """The number of rows like these that an operator may keep itself."""
        return self._memory // (2 * weight(rows)) if rows else 1

    def kept(self) -> SpilledRows:
        """A new empty sequence."""
        return SpilledRows(self)

    def hold(self, size: int) -> None:
        """Count `size` more bytes in memory, or fewer if it is negative."""
        self._held += size

    @property
    def is_full(self) -> bool:
        """True if memory holds more than it should."""
        return self._held > self._memory

    @property
    def written(self) -> int:
        """The bytes in the file."""
        return self._end

    def write(self, data: bytes) -> tuple[int, int]:
        """Write bytes to the file; return their place."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="narval-", dir=self._folder, buffering=0)  # noqa: SIM115 - closed below
        place = self._end
        self._end += os.pwrite(self._file.fileno(), data, place)
        if self._end != place + len(data):
            raise OSError("the file for rows of a dataflow is full")
        return place, len(data)

    def read(self, place: int, size: int) -> bytes:
        """The bytes at a place of the file."""
        assert self._file is not None
        return os.pread(self._file.fileno(), size, place)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

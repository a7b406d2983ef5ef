"""Rows in the binary form of PostgreSQL: an array of values of a composite type (G45).

They are encoded here, because the driver takes several times as long for each value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from struct import Struct
from typing import Any

from narval.store.tables import Columns, plain_type

_ARRAY = Struct(">iiiii").pack
"""The head of an array: dimensions, a flag for no NULLs, type of the elements, length, first index."""

_WORD = Struct(">i").pack
_HEAD = Struct(">ii").pack
"""The type of a value and the length of what follows; the length of NULL is -1."""

_NUMBER, _MOMENT, _TRUTH = Struct(">iiq").pack, Struct(">iid").pack, Struct(">ii?").pack

INTEGERS, FLOATS, BOOLEANS, TEXTS, BYTES = 20, 701, 16, 25, 17
"""The numbers of the types of values in rows."""


def _number(value: int | None) -> bytes:
    return _HEAD(INTEGERS, -1) if value is None else _NUMBER(INTEGERS, 8, value)


def _moment(value: float | None) -> bytes:
    return _HEAD(FLOATS, -1) if value is None else _MOMENT(FLOATS, 8, value)


def _truth(value: bool) -> bytes:
    return _TRUTH(BOOLEANS, 1, value)


def _text(value: str) -> bytes:
    data = value.encode()
    return _HEAD(TEXTS, len(data)) + data


def _bytes(value: bytes | None) -> bytes:
    return _HEAD(BYTES, -1) if value is None else _HEAD(BYTES, len(value)) + value


_MADE: dict[type, Callable[[Any], bytes]] = {
    int: _number,
    float: _moment,
    bool: _truth,
    str: _text,
    bytes: _bytes,
}


class Composite:
    """Rows of a composite type whose number is `oid`."""

    def __init__(self, columns: Columns, oid: int) -> None:
        self._oid, self._size = oid, _WORD(len(columns))
        self._made = [_MADE[plain_type(kind)] for kind in columns.values()]

    def array(self, rows: Sequence[Sequence[Any]]) -> bytes:
        """Rows as an array. Raises ValueError, TypeError or struct.error for a value that its type cannot
        hold.
        """
        made, size = self._made, self._size
        values = ([make(value) for make, value in zip(made, row, strict=True)] for row in rows)
        packed = (b"".join((size, *row)) for row in values)
        head = _ARRAY(1, 0, self._oid, len(rows), 1)
        return b"".join(chain((head,), chain.from_iterable((_WORD(len(row)), row) for row in packed)))

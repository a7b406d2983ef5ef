"""Tuples in transit: batches with one list of attributes, and relations, which are whole (T7, T28).

A value is a text, a number, or None, which is no value. A truth value counts as the number 1 or 0.

Operators keep rows in memory or where the driver puts them (TA41). They need only one thing: a sequence of
rows that grows at its end and is read from its beginning. Sorted runs, and the parts of a relation by key
digest, are several such sequences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import msgspec

from narval.core.engines.events import Failure

Row = tuple[Any, ...]
Schema = tuple[str, ...]

VALUE: Schema = ("value",)
"""The attributes of a stream of values."""

BATCH = 1024
"""The rows of a batch that an operator assembles."""

LONGEST_TEXT = 16 * 1024 * 1024
"""The most characters of a text that an operator makes: as many as an element may have bytes."""


class FlowError(Exception):
    """An error that stops the work of an operator: `failure` says why."""

    def __init__(self, kind: str, message: str, *, final: bool = True) -> None:
        super().__init__(message)
        self.failure = Failure(kind, message, final=final)


class TupleBatch(NamedTuple):
    """Some tuples of one stream, with the attributes `schema`; `relation` names their relation (TA6)."""

    schema: Schema
    rows: list[Row]
    relation: str = ""


class Relation:
    """A relation: its attributes, its tuples, which may be read repeatedly, and its name."""

    __slots__ = ("kept", "name", "schema")

    def __init__(self, schema: Schema, kept: Kept, name: str = "") -> None:
        self.schema, self.kept, self.name = schema, kept, name

    def batches(self) -> Iterator[TupleBatch]:
        """The tuples in order."""
        schema, name = self.schema, self.name
        for rows in self.kept.batches():
            yield TupleBatch(schema, widened(rows, schema), name)

    def __len__(self) -> int:
        return len(self.kept)


def batch_of(tuples: Iterable[Mapping[str, Any]]) -> TupleBatch:
    """A batch of tuples given as mappings; an attribute that a tuple lacks is no value."""
    rows = list(tuples)
    schema = tuple(dict.fromkeys(name for each in rows for name in each))
    return TupleBatch(schema, [tuple([plain(each.get(name)) for name in schema]) for each in rows])


def plain(value: Any) -> Any:
    """A value in the form used in tuples: NaN becomes no value, anything but texts and numbers its text."""
    if value is None or isinstance(value, str | int | float):
        return None if value != value else value
    return str(value)


def position(schema: Schema, attribute: str) -> int:
    """The index of an attribute that must be there. Raises FlowError, which lists the attributes."""
    if attribute not in schema:
        there = ", ".join(schema) or "none"
        raise FlowError("no-attribute", f"expected the attribute {attribute}, found {there}")
    return schema.index(attribute)


def picker(schema: Schema, names: Iterable[str]) -> Callable[[Row], Row]:
    """A function that picks attributes of a row, as a row; an attribute that the row lacks is no value."""
    places = [schema.index(name) if name in schema else -1 for name in names]
    if -1 in places:
        return lambda row: tuple([None if at < 0 else row[at] for at in places])
    if len(places) == 1:
        (one,) = places
        return lambda row: (row[one],)
    return itemgetter(*places) if places else lambda row: ()


def placed_rows(batch: TupleBatch, schema: Schema) -> tuple[Schema, list[Row]]:
    """The rows of a batch in the order of a list of attributes, and that list, extended by the attributes
    that only the batch has. An attribute that the batch lacks is no value.
    """
    own = batch.schema
    if own is schema or own == schema or not schema:
        return own, batch.rows
    wider = (*schema, *[name for name in own if name not in schema])
    return wider, list(map(picker(own, wider), batch.rows))


def remaining(rows: Iterable[Row], taken: Counter[Row]) -> list[Row]:
    """The rows without those that are counted as `taken`, which are counted down."""
    rest: list[Row] = []
    for row in rows:
        if row not in taken:
            rest.append(row)
        elif taken[row] > 1:
            taken[row] -= 1
        else:
            del taken[row]
    return rest


def widened(rows: list[Row], schema: Schema) -> list[Row]:
    """Rows kept when there were fewer attributes, extended; in them, later attributes are no value."""
    if not rows or len(rows[0]) == len(rows[-1]) == len(schema):
        return rows
    size = len(schema)
    return [row if len(row) == size else (*row, *[None] * (size - len(row))) for row in rows]


def slices(rows: list[Row], size: int = BATCH) -> Iterator[list[Row]]:
    """The rows in batches."""
    for at in range(0, len(rows), size):
        yield rows[at : at + size]


# --- rows that operators keep ----------------------------------------------------------------------------

PARTS = 64
"""The number of parts into which a large relation is split."""


class Kept(Protocol):
    """A stored sequence of rows."""

    def add(self, rows: Sequence[Row]) -> None:
        """Append rows."""

    def batches(self) -> Iterator[list[Row]]:
        """All rows in order; the sequence must not grow while it is read."""

    def drop(self) -> None:
        """Drop the rows, which are not read again."""

    def __len__(self) -> int: ...


class Spill(Protocol):
    """Storage for rows."""

    def room(self, rows: Sequence[Row]) -> int:
        """The number of rows like these that an operator may keep itself."""

    def kept(self) -> Kept:
        """A new empty sequence."""


class RowsInMemory:
    """A sequence of rows in memory."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def add(self, rows: Sequence[Row]) -> None:
        self._rows.extend(rows)

    def batches(self) -> Iterator[list[Row]]:
        return slices(self._rows)

    def drop(self) -> None:
        self._rows = []

    def __len__(self) -> int:
        return len(self._rows)


class MemoryAlone:
    """Storage in memory only."""

    def room(self, rows: Sequence[Row]) -> int:
        """No limit."""
        return 1 << 62

    def kept(self) -> RowsInMemory:
        """A new empty sequence."""
        return RowsInMemory()


class Parts:
    """Rows partitioned by key: rows with equal keys are in one part, and each part can be read by itself."""

    def __init__(self, spill: Spill) -> None:
        self._kept = [spill.kept() for _ in range(PARTS)]

    def add(self, keys: Sequence[Any], rows: Sequence[Row]) -> None:
        """Put rows into the parts of their keys."""
        parted: list[list[Row]] = [[] for _ in range(PARTS)]
        for key, row in zip(keys, rows, strict=True):
            parted[hash(key) % PARTS].append(row)
        for part_rows, part in zip(self._kept, parted, strict=True):
            if part:
                part_rows.add(part)

    def all(self) -> list[Kept]:
        """The parts in order."""
        return self._kept


# --- texts ------------------------------------------------------------------------------------------------


def text_of(value: Any) -> str:
    """The text of a value: the shortest decimal of a number, "" for no value."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else decimal(value)


def decimal(number: float) -> str:
    """A number as its shortest decimal, without an exponent."""
    text = repr(number + 0.0)  # -0.0 is 0
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text.removesuffix(".0")
    sign = "-" * mantissa.startswith("-")
    whole, _, part = mantissa.lstrip("-").partition(".")
    places = len(part) - int(exponent)
    digits = whole + part
    if places <= 0:
        return sign + digits + "0" * -places
    digits = digits.zfill(places + 1)
    return f"{sign}{digits[:-places]}.{digits[-places:]}".rstrip("0").rstrip(".")


def joined(pieces: list[str]) -> str:
    """Join the pieces of a text. Raises FlowError, before joining, if it would be too long."""
    if sum(map(len, pieces)) > LONGEST_TEXT:
        raise too_long()
    return "".join(pieces)


def too_long() -> FlowError:
    """The error for a text that would be too long."""
    return FlowError(
        "too-long",
        f"expected a text of at most {LONGEST_TEXT:,} characters, found data that make a longer one; "
        "put less into it, or take tuples one after another",
    )


def tuple_text(schema: Schema, row: Row) -> str:
    """A tuple as a text: the single value in a stream of values, else a JSON object of what has a value.

    Raises FlowError if it is too long.
    """
    if schema == VALUE:
        return text_of(row[0])
    joined([value for value in row if isinstance(value, str)])
    fields = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in zip(schema, row, strict=True)
        if value is not None
    }
    return msgspec.json.encode(fields).decode()

"""Rows as read: each has values of its columns' types, or the damage is reported (N35).

Damage belongs to no single run; an unreadable run fails (`Turn.fail_unreadable`). With an unreadable origin,
an element stays without one; with an unreadable offer, every element is offered again; an unreadable job is
not done. `daemon/agents/resuming.py` reports each once, by an `error` element of type `unreadable`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from narval.core.errors import StoreError
from narval.store.batch import Eid


class LostOrigin(NamedTuple):
    """The origin of an element; the element stays."""

    why: str
    eid: int


class LostEvent(NamedTuple):
    """An event that still waited: one for a run, or an offer (run 0)."""

    why: str
    row: int
    run: int


class LostJob(NamedTuple):
    """A job, which is not done."""

    why: str
    identifier: str
    at: float


class LostTurns(NamedTuple):
    """The latest turns: pages of the log that were committed and are gone."""

    pages: int


LOST_PAGES = "lost_pages"
"""The fact that records this until it is reported."""

Damage = LostOrigin | LostEvent | LostJob | LostTurns


Row = TypeVar("Row")

_KEPT = (bytes,)
SHORTEST = len(b"<a/>")
"""The bytes of the shortest element."""


class ElementRow(NamedTuple):
    """An element; `codec.decode_origin` reads `origin`, and reports a fault in it."""

    eid: Eid
    name: str
    xml: Annotated[bytes, msgspec.Meta(min_length=SHORTEST)]
    added: float
    origin: Any
    declared: str
    outdated: bool | int
    held_by: Eid | None


class HeldRow(NamedTuple):
    """An element in the context of a run."""

    run: Eid
    eid: Eid


class LastRow(NamedTuple):
    """The last eid of a table, if there is any."""

    eid: Eid | None


class LabelRow(NamedTuple):
    """A label of an element or a run."""

    eid: Eid
    label: str


class KeyRow(NamedTuple):
    """A value that an output with `unique` has produced (N37)."""

    name: str
    expression: str
    value: str


class CurrentRow(NamedTuple):
    """A current version of a definition, by its names."""

    kind: str
    name: str
    digest: str


class ScopeRow(NamedTuple):
    """A scope of results, and their number."""

    scope: str
    results: int


class FactRow(NamedTuple):
    """A small fact about an agent."""

    key: str
    value: str


def typed(
    row: type[Row], rows: Sequence[Any], table: str, store: str, error: type[StoreError] = StoreError
) -> list[Row]:
    """Rows of a table as values of `row`. Raises `error` for one with a value of another type."""
    try:
        return msgspec.convert(rows, list[row], builtin_types=_KEPT)  # type: ignore[valid-type]
    except msgspec.ValidationError:
        return [_typed(row, values, table, store, error) for values in rows]


def _typed(row: type[Row], values: Any, table: str, store: str, error: type[StoreError]) -> Row:
    try:
        return msgspec.convert(values, row, builtin_types=_KEPT)
    except msgspec.ValidationError as wrong:
        raise error(_damage(row, values, table, store, str(wrong))) from None


SEQUENCE = "sequence"
"""The fact with an upper bound of the numbers in an agent's journal and queue."""


def number(facts: Mapping[str, str], key: str, otherwise: int) -> int:
    """A small fact that is a whole number. Raises StoreError for any other text."""
    value = facts.get(key)
    if value is None:
        return otherwise
    if not (value.isascii() and value.isdecimal()):
        what = f"expected the fact {key} to be a number, got {value!r:.40}"
        raise StoreError(f"the store is damaged: {what}; {ADVICE}")
    return int(value)


ADVICE = "put back a backup (docs/reference/store.md)"


def _damage(row: type[Any], values: Any, table: str, store: str, wrong: str) -> str:
    """The damage of a row: where it is, what was expected and found, and what to do."""
    expected, _, _ = wrong.partition(" - at ")
    place = re.search(r"\[(\d+)\]$", wrong.rstrip("`"))
    column = f", column {row._fields[int(place[1])]}" if place is not None else ""
    where = f"{table} {values[0]!r:.40}{column}"
    return f"the store is damaged: {store}: {where}: {expected[:1].lower()}{expected[1:]}; {ADVICE}"

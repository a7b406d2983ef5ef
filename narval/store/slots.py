"""The table of slots: the rows that a batch writes, in order, and their effects.

A slot has the columns of its rows, and the effects of a row. The statements of both databases follow from it:
SQLite applies each effect to each row, a server to all rows of a call at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from narval.store import tables
from narval.store.batch import LETTERS_KEPT, SLOTS, Advance, Batch
from narval.store.codec import encode_entry, encode_origin

Rows = Sequence[Sequence[Any]]
RowsOf = Callable[[Batch], Rows]

TRIMMED_AT_ONCE = 5_000
"""The most entries of a run that are dropped in one turn."""


class Insert(NamedTuple):
    """Insertion of the row into a table with its columns; an existing row of its key stays or is replaced."""

    table: tables.Table
    conflict: Literal["refuse", "keep", "replace"] = "refuse"


class Alter(NamedTuple):
    """Alteration (without `change`, removal) of the rows of a table, `old`, that satisfy a condition on them
    and on the row of the slot, `new`.
    """

    table: tables.Table
    condition: str
    change: str = ""


class Each(NamedTuple):
    """A statement for each row of the slot, `new`."""

    statement: str


Effect = Insert | Alter | Each


class Slot(NamedTuple):
    """The rows of a slot and their effects; `made` maps fields of the batch to functions that make rows."""

    name: str
    columns: tables.Columns
    effects: tuple[Effect, ...]
    made: Mapping[str, RowsOf]


def _slot(name: str, columns: tables.Columns, *effects: Effect, **made: RowsOf) -> Slot:
    return Slot(name, columns, effects, made or {name: _rows_of(name, columns)})


def _rows_of(name: str, columns: tables.Columns) -> RowsOf:
    """The rows of a field of the batch, each preceded by the agent of the batch."""
    if len(columns) <= 2:
        return lambda batch: [(batch.agent, value) for value in getattr(batch, name)]
    return lambda batch: [(batch.agent, *row) for row in getattr(batch, name)]


def _row(**columns: type) -> tables.Columns:
    return {"agent": int, **columns}


def _into(
    table: tables.Table, conflict: Literal["refuse", "keep", "replace"], *more: Effect, **made: RowsOf
) -> Slot:
    """A slot whose rows are those of a table."""
    if table.row_has_agent:
        made = {table.name: attrgetter(table.name)}
    return _slot(table.name, table.columns, Insert(table, conflict), *more, **made)


def _same(names: str) -> str:
    """The condition that a row has the same agent and equal columns, such as `eid`, or `eid=run`."""
    pairs = (name.partition("=") for name in ("agent", *names.split()))
    return " AND ".join(f'old."{name}" = new."{other or name}"' for name, _, other in pairs)


def _drop(table: tables.Table, names: str, more: str = "") -> Alter:
    return Alter(table, _same(names) + more)


def _set(table: tables.Table, change: str, names: str, more: str = "") -> Alter:
    return Alter(table, _same(names) + more, change)


# --- rows that differ from those of a batch -------------------------------------------------------------


def _digest(data: bytes) -> bytes:
    """The key of a text: its SHA-256."""
    return hashlib.sha256(data).digest()


def _texts_of_definitions(batch: Batch) -> Rows:
    return [(_digest(row.source), row.source) for row in batch.definitions]


def _texts_of_elements(batch: Batch) -> Rows:
    return [(_digest(added.element.xml), added.element.xml) for added in batch.shared]


def _definition_rows(batch: Batch) -> Rows:
    return [(batch.agent, *row._replace(source=_digest(row.source))) for row in batch.definitions]


def _shared_rows(batch: Batch) -> Rows:
    return [
        (batch.agent, of.eid, of.name, b"", of.added, encode_origin(of.origin), declared, False, None, text)
        for of, declared, text in (
            (added.element, added.declared, _digest(added.element.xml)) for added in batch.shared
        )
    ]


_FIELDS = attrgetter("eid", "name", "xml", "added")


def _element_rows(batch: Batch) -> Rows:
    agent, holders = batch.agent, _holders(batch)
    return [
        (agent, *_FIELDS(of), encode_origin(of.origin), declared, False, holders.get(of.eid), None)
        for of, declared in ((added.element, added.declared) for added in batch.elements)
    ]


def _held_rows(batch: Batch) -> Rows:
    agent, holders = batch.agent, _holders(batch) if batch.elements else {}
    return [(agent, run, eid) for run, eid in batch.held if holders.get(eid) != run]


def _holders(batch: Batch) -> dict[int, int]:
    """The run that holds each new element, the first if there are several."""
    new = {added.element.eid for added in batch.elements}
    return {eid: run for run, eid in reversed(batch.held) if eid in new}


_ADVANCE = attrgetter(*Advance.__struct_fields__)


def _entry_rows(batch: Batch) -> Rows:
    agent = batch.agent
    return [
        (agent, run, seq, event.at, encode_entry(event, changes, commands))
        for run, seq, event, changes, commands in map(_ADVANCE, batch.journal)
    ]


def _withdrawal_rows(batch: Batch) -> Rows:
    return [(batch.agent, *row) for row in batch.withdrawals.values() if row is not None]


def _confirmed(batch: Batch) -> Rows:
    return [(batch.agent, eid) for eid, row in batch.withdrawals.items() if row is None]


def _result_rows(batch: Batch) -> Rows:
    return [(batch.agent, *row) for row in batch.results.values() if row is not None]


def _dropped_results(batch: Batch) -> Rows:
    return [(batch.agent, *key) for key, row in batch.results.items() if row is None]


def _removed(batch: Batch) -> Rows:
    return [(number,) for number in batch.removed_agents]


# --- the table ------------------------------------------------------------------------------------------

_TRIM = f"""\
DELETE FROM journal WHERE line IN (
	SELECT line FROM journal WHERE agent = new.agent AND run = new.run AND seq <= new.seq AND line <= (
		SELECT line FROM journal WHERE agent = new.agent AND run = new.run
		ORDER BY line DESC LIMIT 1 OFFSET new.keep)
	ORDER BY line LIMIT {TRIMMED_AT_ONCE})"""
"""Remove the oldest entries of a run, limited, since an old run may have more than a turn should drop."""

WRITTEN: tuple[Slot, ...] = (
    _into(tables.AGENTS, "replace"),
    _into(tables.TEXTS, "keep", definitions=_texts_of_definitions, shared=_texts_of_elements),
    _slot(
        "definitions",
        tables.DEFINITIONS.columns,
        _set(
            tables.DEFINITIONS,
            "current = false",
            "kind name",
            " AND new.current AND old.digest <> new.digest",
        ),
        Insert(tables.DEFINITIONS, "replace"),
        definitions=_definition_rows,
    ),
    _slot(
        "retired",
        _row(digest=str, kind=str, name=str),
        _set(tables.DEFINITIONS, "current = false", "digest kind name"),
    ),
    _into(tables.ELEMENTS, "refuse", shared=_shared_rows, elements=_element_rows),
    _slot("outdated", _row(eid=int), _set(tables.ELEMENTS, "outdated = true", "eid")),
    _slot("undeclared", _row(eid=int), _set(tables.ELEMENTS, "declared = ''", "eid")),
    _into(tables.CONTEXTS, "keep", held=_held_rows),
    _into(tables.MARKS, "keep"),
    _into(tables.WITHDRAWALS, "replace", withdrawals=_withdrawal_rows),
    _into(tables.LABELS, "keep"),
    _into(tables.KEYS, "keep"),
    _into(tables.RUNS, "replace"),
    _into(tables.JOURNAL, "refuse", journal=_entry_rows),
    _into(tables.SNAPSHOTS, "replace"),
    _into(tables.QUEUE, "replace", queued=_rows_of("queued", tables.QUEUE.columns)),
    _into(tables.MOMENTS, "replace"),
    _into(tables.META, "replace"),
    _into(tables.RESULTS, "replace", results=_result_rows),
    _into(tables.MESSAGES, "refuse"),
    _into(tables.TAKEN, "replace", _drop(tables.MESSAGES, "sender", " AND old.number <= new.number")),
    _into(
        tables.DEAD_LETTERS,
        "refuse",
        _drop(tables.DEAD_LETTERS, "", f" AND old.at < new.at - {LETTERS_KEPT}"),
    ),
    _slot("trimmed", _row(run=int, seq=int, keep=int), Each(_TRIM)),
    _slot(
        "dropped_results",
        _row(scope=str, key=str),
        _drop(tables.RESULTS, "scope key"),
        results=_dropped_results,
    ),
    _slot("dropped_scopes", _row(scope=str), _drop(tables.RESULTS, "scope")),
    _slot("confirmed", _row(eid=int), _drop(tables.WITHDRAWALS, "eid"), withdrawals=_confirmed),
    _slot("dequeued", _row(id=int), _drop(tables.QUEUE, "id")),
    _slot("moments_done", _row(id=str), _drop(tables.MOMENTS, "id")),
    _slot("letters_settled", _row(line=int), _drop(tables.DEAD_LETTERS, "line")),
    _slot(
        "unheld",
        _row(run=int, eid=int),
        _set(tables.ELEMENTS, "held_by = NULL", "held_by=run eid"),
        _drop(tables.CONTEXTS, "run eid"),
    ),
    _slot(
        "forgotten_elements",
        _row(eid=int),
        *(
            _drop(table, "eid")
            for table in (tables.ELEMENTS, tables.MARKS, tables.WITHDRAWALS, tables.LABELS)
        ),
    ),
    _slot(
        "forgotten_runs",
        _row(run=int),
        _drop(tables.RUNS, "eid=run"),
        _drop(tables.MARKS, "eid=run"),
        _drop(tables.LABELS, "eid=run"),
        *(_drop(table, "run") for table in (tables.CONTEXTS, tables.JOURNAL, tables.SNAPSHOTS)),
    ),
    _slot(
        "removed_agents",
        _row(),
        *(_drop(table, "") for table in tables.OF_AGENTS),
        removed_agents=_removed,
    ),
)
"""All effects of a batch, in order: first additions, then removals."""


_PLACES = {name: place for place, name in enumerate(SLOTS)}


def filled(batches: Iterable[Batch]) -> list[str]:
    """The names of the slots in which one of these batches has rows, in the order of writing."""
    names: set[str] = set()
    for batch in batches:  # loops rather than a comprehension: each commit calls this
        for name, rows in batch.__dict__.items():
            if rows:
                names.add(name)
    return sorted(names, key=_PLACES.__getitem__)


def by_field(of_slot: Callable[[Slot], Any]) -> dict[str, list[tuple[RowsOf, Any]]]:
    """By field of a batch, the functions that make its rows, each with `told` applied to their slot."""
    pairs = [(slot, of_slot(slot)) for slot in WRITTEN]
    return {field: [(slot.made[field], of) for slot, of in pairs if field in slot.made] for field in SLOTS}

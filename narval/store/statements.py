"""The statements of the store by their names: their texts, and which of them a batch makes the writer do.

`tables.py` defines them. What they are for SQLite is written down in `sqlite.sql`, and a test holds the two
together: SQLAlchemy takes longer to import than a daemon to start, and a home with a file needs it only to be
brought up to date.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from narval import __version__
from narval.store.batch import HOME_AGENT, LETTERS_KEPT, SLOTS, STORE, Advance, AgentRow, Batch
from narval.store.codec import encode_entry, encode_origin

HEAD = "0004"
"""The version of the tables: the last one under `migrations/versions`."""

DEFAULT_NAME = "narval"
"""The name of the home's own agent where the settings give none."""

SQLITE = Path(__file__).with_name("sqlite.sql")
HEADING = "-- name: "

Rows = Sequence[Sequence[Any]]
RowsOf = Callable[[Batch], Rows]


def of_sqlite() -> Mapping[str, str]:
    """SQLite's statements, as they are written down."""
    return named_statements(SQLITE)


def named_statements(path: Path) -> Mapping[str, str]:
    """The statements that a file has, by their names."""
    _, *parts = path.read_text("utf-8").split(HEADING)
    named = (part.partition("\n") for part in parts)
    return {name: text.strip().removesuffix(";") for name, _, text in named}


def make_schema(cursor: Any, known: Mapping[str, str]) -> None:
    """The tables of an empty database, stamped with their version so that nothing is to be migrated, and the
    home's own agent.
    """
    for statement in known["schema"].split(";\n"):
        cursor.execute(statement)
    cursor.execute(known["stamp"], (HEAD,))
    cursor.executemany(known["put meta"], [(STORE, "narval", __version__), (STORE, "clean", "1")])
    cursor.execute(known["put agent"], new_agent(HOME_AGENT, DEFAULT_NAME))


def new_agent(number: int, name: str) -> AgentRow:
    """An agent that was never there before."""
    return AgentRow(number, secrets.token_hex(16), name)


# --- the rows of a batch --------------------------------------------------------------------------------


def _superseding(batch: Batch) -> Rows:
    return [(batch.agent, row.kind, row.name, row.digest) for row in batch.definitions if row.current]


def _texts_of_definitions(batch: Batch) -> Rows:
    return [(_digest(row.source), row.source) for row in batch.definitions]


def _definition_rows(batch: Batch) -> Rows:
    return [
        (batch.agent, row.digest, row.kind, row.name, row.path, _digest(row.source), row.loaded, row.current)
        for row in batch.definitions
    ]


def _texts_of_elements(batch: Batch) -> Rows:
    return [(_digest(added.element.xml), added.element.xml) for added in batch.shared]


def _shared_rows(batch: Batch) -> Rows:
    return [
        (batch.agent, of.eid, of.name, b"", of.added, encode_origin(of.origin), declared, False, None, text)
        for of, declared, text in (
            (added.element, added.declared, _digest(added.element.xml)) for added in batch.shared
        )
    ]


def _digest(data: bytes) -> bytes:
    """The key of a text: its SHA-256."""
    return hashlib.sha256(data).digest()


_FIELDS = attrgetter("eid", "name", "xml", "added")


def _element_rows(batch: Batch) -> Rows:
    agent, holders = batch.agent, _holders(batch)
    return [
        (agent, *_FIELDS(element), encode_origin(element.origin), declared, False, holders.get(element.eid))
        for element, declared in ((added.element, added.declared) for added in batch.elements)
    ]


def _held_rows(batch: Batch) -> Rows:
    agent, holders = batch.agent, _holders(batch) if batch.elements else {}
    return [(agent, run, eid) for run, eid in batch.held if holders.get(eid) != run]


def _holders(batch: Batch) -> dict[int, int]:
    """The run that holds a new element, the first where there are several."""
    new = {added.element.eid for added in batch.elements}
    return {eid: run for run, eid in reversed(batch.held) if eid in new}


_ADVANCE = attrgetter(*Advance.__struct_fields__)


def _entry_rows(batch: Batch) -> Rows:
    agent = batch.agent
    return [
        (agent, run, seq, event.at, encode_entry(event, changes, commands))
        for run, seq, event, changes, commands in map(_ADVANCE, batch.journal)
    ]


def _trimmed_rows(batch: Batch) -> Rows:
    agent = batch.agent
    return [(agent, run, seq, agent, run, keep) for run, seq, keep in batch.trimmed]


def _rows_of(slot: str) -> RowsOf:
    return lambda batch: [(batch.agent, *row) for row in getattr(batch, slot)]


def _single(slot: str) -> RowsOf:
    return lambda batch: [(batch.agent, value) for value in getattr(batch, slot)]


KEPT_OF_AGENTS = (
    "meta", "elements", "contexts", "marks", "keys", "runs", "journal", "snapshots", "queue", "moments",
    "definitions", "messages", "taken", "dead_letters", "agents",
)  # fmt: skip
"""The tables that have rows of agents: all but the version of the tables."""


def _removed(batch: Batch) -> Rows:
    return [(number,) for number in batch.removed_agents]


def _kept_no_more(batch: Batch) -> Rows:
    return [(row.agent, row.at - LETTERS_KEPT) for row in batch.dead_letters]


WRITES: tuple[tuple[str, str, RowsOf], ...] = (
    ("agents", "put agent", attrgetter("agents")),
    ("definitions", "supersede definition", _superseding),
    ("definitions", "add text", _texts_of_definitions),
    ("definitions", "put definition", _definition_rows),
    ("retired", "retire definition", _rows_of("retired")),
    ("shared", "add text", _texts_of_elements),
    ("shared", "share element", _shared_rows),
    ("elements", "add element", _element_rows),
    ("outdated", "outdate element", _single("outdated")),
    ("undeclared", "undeclare element", _single("undeclared")),
    ("held", "hold", _held_rows),
    ("marks", "mark", _rows_of("marks")),
    ("keys", "add key", _rows_of("keys")),
    ("runs", "put run", _rows_of("runs")),
    ("journal", "add entry", _entry_rows),
    ("snapshots", "put snapshot", _rows_of("snapshots")),
    ("queued", "put event", _rows_of("queued")),
    ("moments", "put moment", _rows_of("moments")),
    ("meta", "put meta", _rows_of("meta")),
    ("messages", "add message", attrgetter("messages")),
    ("taken", "put taken", attrgetter("taken")),
    ("taken", "drop messages", attrgetter("taken")),
    ("dead_letters", "add dead letter", attrgetter("dead_letters")),
    ("dead_letters", "drop old dead letters", _kept_no_more),
    ("trimmed", "trim journal", _trimmed_rows),
    ("dequeued", "drop event", _single("dequeued")),
    ("moments_done", "drop moment", _single("moments_done")),
    ("letters_settled", "drop dead letter", _single("letters_settled")),
    ("unheld", "unhold by its maker", _rows_of("unheld")),
    ("unheld", "unhold", _rows_of("unheld")),
    ("forgotten_elements", "drop element", _single("forgotten_elements")),
    ("forgotten_elements", "drop marks", _single("forgotten_elements")),
    *(
        ("forgotten_runs", f"drop {kept}", _single("forgotten_runs"))
        for kept in ("run", "marks", "context", "entries", "snapshot")
    ),
    *(("removed_agents", f"remove {kept}", _removed) for kept in KEPT_OF_AGENTS),
)
"""Slot of a batch, statement, and its rows, the agent in front of each. All that a batch can make the writer
do, in the order it is done: first what comes, then what goes."""


def by_slot(known: Mapping[str, str]) -> list[list[tuple[str, RowsOf]]]:
    """The texts of the statements of each slot, in the order of the slots."""
    return [[(known[name], rows) for of, name, rows in WRITES if of == slot] for slot in SLOTS]

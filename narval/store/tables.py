"""The tables of the store, each declared once (docs/reference/store.md).

A table has the columns of the row that is read from it. Its statements, its schema in both dialects, the rows
that a backup copies, and the rows removed with an agent follow from the declaration.

The journal has one row for each *entry*: an event with the changes and commands that followed. The design
asks for a row per change; one row keeps together what one advance decided, and is one insert. `seq` numbers
the lines of an agent. The rows are in the order of writing, so the table grows at its end, with an index by
run beside it. When it was clustered by run (`WITHOUT ROWID`, key run and seq), a turn of a hundred runs
touched a hundred pages and cost 15 µs a row where this costs 6. Tables whose columns are all in the key are
clustered.

A commit costs a page of each table that it touches. So the run that made an element, and holds it from the
start, is in the element's own row; `contexts` has the other holders. A message is a row from the sender's
commit to the receiver's, and both know its key, so its table is clustered, without a second tree.

The bytes of a definition are in `texts` once, whatever the number of agents (G4): its version and its element
refer to them by their SHA-256. No other element does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_type_hints

from narval.store import batch
from narval.store.rows import ElementRow, FactRow, HeldRow, KeyRow, LabelRow

HEAD = 8
"""The version of the tables: the number of the last file under `migrations`."""

Columns = Mapping[str, Any]
"""The type of each column by its name: one of `TYPES`, with `| None` if a value may be missing."""

TYPES: tuple[type, ...] = (int, str, bytes, float, bool)


class Dialect(NamedTuple):
    """The differences between databases: the names of `TYPES`, of a line number, of a clustered table, and
    the placeholder for a parameter.
    """

    name: str
    types: tuple[str, ...]
    line: str
    clustered: str
    mark: str

    def type_of(self, kind: Any) -> str:
        """The name of the type of a column."""
        return self.types[TYPES.index(plain_type(kind))]


SQLITE = Dialect("sqlite", ("INTEGER", "TEXT", "BLOB", "DOUBLE", "BOOLEAN"), "INTEGER", " WITHOUT ROWID", "?")
POSTGRESQL = Dialect(
    "postgresql", ("BIGINT", "TEXT", "BYTEA", "DOUBLE PRECISION", "BOOLEAN"), "BIGSERIAL", "", "%s"
)


class Table(NamedTuple):
    """A table: its columns, in order, and the names of those that are the key.

    Without a key its rows are in the order of writing, across agents, under a line number from the database.
    """

    name: str
    columns: Columns
    key: tuple[str, ...]
    indexes: tuple[str, ...] = ()
    row_has_agent: bool = False
    """True if the row that is read includes the agent."""

    @property
    def is_of_agents(self) -> bool:
        """True if each row is an agent's."""
        return "agent" in self.columns

    def schema(self, dialect: Dialect) -> Iterator[str]:
        """The statements that make it."""
        columns = [] if self.key else [f'"line" {dialect.line} NOT NULL']
        for name, kind in self.columns.items():
            present = " NOT NULL" if kind in TYPES else ""
            columns.append(f'"{name}" {dialect.type_of(kind)}{present}')
        lines = ",\n\t".join((*columns, f"PRIMARY KEY ({quoted(self.key or ('line',))})"))
        yield f"CREATE TABLE {self.name} (\n\t{lines}\n){dialect.clustered if self.is_clustered else ''}"
        yield from (f"CREATE {index}" for index in self.indexes)

    @property
    def is_clustered(self) -> bool:
        """True if its rows are clustered by their key; texts are not, because they are long."""
        return bool(self.key) and self.name != "texts"


def plain_type(kind: Any) -> type:
    """The type of a column, without `| None`."""
    return next(plain for plain in TYPES if kind in (plain, plain | None))


def quoted(names: Any) -> str:
    """Names of columns for a statement."""
    return ", ".join(f'"{name}"' for name in names)


def _columns(row: type[Any], **others: Any) -> Columns:
    """A column for each field of a row; `others` are additional columns, or those with another type than the
    field.
    """
    return {**get_type_hints(row), **others}


def _table(name: str, columns: Columns, key: str = "", *indexes: str) -> Table:
    """A table of agents; the agent is part of every key."""
    keys = ("agent", *key.split()) if key else ()
    return Table(name, {"agent": int, **columns}, keys, indexes, "agent" in columns)


VERSION = Table("version", {"number": int}, ("number",))
"""The version of the tables, in one row."""

TEXTS = Table("texts", {"digest": bytes, "data": bytes}, ("digest",))
META = _table("meta", _columns(FactRow), "key")
ELEMENTS = _table(
    "elements",
    _columns(ElementRow, origin=bytes | None, outdated=bool, text=bytes | None),
    "",
    "UNIQUE INDEX elements_by_eid ON elements (agent, eid)",
    # It has only the few rows that refer to a text, not those that a step adds.
    "INDEX elements_by_text ON elements (text) WHERE text IS NOT NULL",
)
CONTEXTS = _table("contexts", _columns(HeldRow), "run eid")
# eid before the rest: a forgotten element's marks are found by a search, not a scan.
MARKS = _table("marks", _columns(batch.MarkRow), "eid definition place slot")
LABELS = _table("labels", _columns(LabelRow), "eid label")
WITHDRAWALS = _table("withdrawals", _columns(batch.WithdrawalRow, doubtful=bool), "eid")
KEYS = _table("keys", _columns(KeyRow), "name expression value")
RUNS = _table("runs", _columns(batch.RunRow), "eid")
JOURNAL = _table("journal", _columns(batch.JournalRow), "", "INDEX journal_by_run ON journal (agent, run)")
SNAPSHOTS = _table("snapshots", _columns(batch.SnapshotRow), "run")
QUEUE = _table("queue", _columns(batch.QueuedRow), "id")
MOMENTS = _table("moments", _columns(batch.MomentRow), "id")
_VERSION = _columns(batch.DefinitionRow, current=bool)
DEFINITIONS = _table(
    "definitions",
    {"text" if name == "source" else name: kind for name, kind in _VERSION.items()},  # its bytes are a text
    "digest kind name",
)
RESULTS = _table("results", _columns(batch.ResultRow), "scope key")
MESSAGES = _table("messages", _columns(batch.MessageRow), "sender number")
TAKEN = _table("taken", _columns(batch.TakenRow), "sender")
DEAD_LETTERS = _table(
    "dead_letters", _columns(batch.DeadLetterRow), "", "INDEX dead_letters_by_agent ON dead_letters (agent)"
)
AGENTS = Table(
    "agents", _columns(batch.AgentRow), ("agent",), ("UNIQUE INDEX agents_by_name ON agents (name)",), True
)

TABLES = (
    VERSION, TEXTS, META, ELEMENTS, CONTEXTS, MARKS, WITHDRAWALS, LABELS, KEYS, RUNS, JOURNAL, SNAPSHOTS,
    QUEUE, MOMENTS, DEFINITIONS, RESULTS, MESSAGES, TAKEN, DEAD_LETTERS, AGENTS,
)  # fmt: skip

OF_AGENTS = tuple(table for table in TABLES if table.is_of_agents)
"""The tables that have rows of agents: all but the version of the tables and the texts."""

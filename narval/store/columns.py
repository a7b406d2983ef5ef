"""The tables of the store and their columns (docs/reference/store.md).

The journal has one row for each *entry*: an event with the changes and commands that followed. The design
asks for a row per change; one row holds together what one advance decided, and is one insert. `seq` numbers
the lines of the whole home, so the table grows at its end, with an index by run beside it: clustered by run
(`WITHOUT ROWID`, key run and seq), a turn of a hundred runs touched a hundred pages and cost 15 µs a row
where this costs 6. Tables whose rows are all key are clustered.

A commit costs what it touches, a page of each table. So the run that made an element, and holds it from the
start, stands in the element's own row; `contexts` has the other holders. A message is a row from the
sender's commit to the receiver's, and both know its key: so its table is clustered, without a second tree.

The bytes of a definition stand in `texts` once, whatever the number of agents (G4): its version and its
element name them by their SHA-256. No other element does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_type_hints

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from narval.store.batch import (
    AgentRow,
    DeadLetterRow,
    JournalRow,
    MarkRow,
    MessageRow,
    MomentRow,
    QueuedRow,
    RunRow,
    SnapshotRow,
    TakenRow,
)

_IN_ORDER = ("elements", "journal", "dead_letters")
"""The tables whose rows stand in the order of writing, whatever agent they are of."""

metadata = MetaData()


def _table(name: str, fields: Mapping[str, Any], key: str, *also: Index) -> Table:
    """A table with a column for the agent and one for each field, of the type that is said; the agent and
    the fields named in `key` are the key.

    Rows stand under their key, but in the tables that are kept in order: there under the number of a line.
    """
    in_order = name in _IN_ORDER
    columns = [Column("line", _TYPES[int], autoincrement=True)] if in_order else []
    for field, kind in {"agent": int, **fields}.items():
        plain = next(of for of in _TYPES if kind in (of, of | None))
        columns.append(Column(field, _TYPES[plain], autoincrement=False, nullable=kind is not plain))
    rows = PrimaryKeyConstraint(*("line",) if in_order else ("agent", *key.split()))
    return Table(name, metadata, *columns, rows, *also, sqlite_with_rowid=in_order)


_TYPES: dict[type, Any] = {
    int: BigInteger().with_variant(Integer, "sqlite"),
    str: Text,
    bytes: LargeBinary,
    float: Double,
    bool: Boolean,
}
_Element = {
    "eid": int,
    "name": str,
    "xml": bytes,
    "added": float,
    "origin": bytes | None,
    "declared": str,
    "outdated": bool,
    "held_by": int | None,
    "text": bytes | None,
}
_Version = {
    **dict.fromkeys(("digest", "kind", "name", "path"), str),
    "text": bytes,
    "loaded": float,
    "current": bool,
}

stamp = Table(
    "alembic_version",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
agents = _table("agents", get_type_hints(AgentRow), "", Index("agents_by_name", "name", unique=True))
meta = _table("meta", dict.fromkeys(("key", "value"), str), "key")
texts = Table(
    "texts",
    metadata,
    Column("digest", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("digest"),
)
elements = _table("elements", _Element, "", Index("elements_by_eid", "agent", "eid", unique=True))
# Only of the few that name a text: what a step adds is not in it.
_named = elements.c.text.is_not(None)
Index("elements_by_text", elements.c.text, sqlite_where=_named, postgresql_where=_named)
contexts = _table("contexts", dict.fromkeys(("run", "eid"), int), "run eid")
# eid before the rest: what is forgotten takes its marks along by a search, not a scan.
marks = _table("marks", get_type_hints(MarkRow), "eid definition place slot")
keys = _table("keys", dict.fromkeys(("name", "expression", "value"), str), "name expression value")
runs = _table("runs", get_type_hints(RunRow), "eid")
journal = _table("journal", get_type_hints(JournalRow), "", Index("journal_by_run", "agent", "run"))
snapshots = _table("snapshots", get_type_hints(SnapshotRow), "run")
queue = _table("queue", get_type_hints(QueuedRow), "id")
moments = _table("moments", get_type_hints(MomentRow), "id")
definitions = _table("definitions", _Version, "digest kind name")
messages = _table("messages", get_type_hints(MessageRow), "sender number")
taken = _table("taken", get_type_hints(TakenRow), "sender")
dead_letters = _table(
    "dead_letters", get_type_hints(DeadLetterRow), "", Index("dead_letters_by_agent", "agent")
)

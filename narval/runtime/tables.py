"""The tables of the store, and the statements of its one writer (design, "Storage").

SQLAlchemy Core defines both and writes the SQL for the database in use; the writer hands the SQL to the
driver's own cursor, because Core's execute costs ten times a SQLite insert (`packages.md`, row 8).

The journal has one row for each *entry*: an event with the changes and commands that followed. The design
asks for a row per change; one row holds together what one advance decided, and is one insert. `seq` numbers
the lines of the whole home, so the table grows at its end, with an index by run beside it: clustered by run
(`WITHOUT ROWID`, key run and seq), a turn of a hundred runs touched a hundred pages and cost 15 µs a row
where this costs 6. Tables whose rows are all key are clustered.

A commit costs what it touches, a page of each table. So the run that made an element, and holds it from the
start, stands in the element's own row; `contexts` has the other holders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Delete,
    Dialect,
    Double,
    Index,
    Insert,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    Update,
    bindparam,
    delete,
    literal_column,
    select,
    true,
    update,
)

from narval.errors import StoreError
from narval.runtime.codec import encode_entry, encode_origin
from narval.runtime.store import Batch

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

HEAD = "0001"
"""The version of the schema below: the last one under `migrations/versions`."""

TRIMMED_AT_ONCE = 5_000
"""So many entries of a run are dropped in one turn at most."""

Number = BigInteger().with_variant(Integer, "sqlite")
metadata = MetaData()


def _id(name: str) -> Column[int]:
    return Column(name, Number, primary_key=True, autoincrement=False)


stamp = Table(
    "alembic_version",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
    sqlite_with_rowid=False,
)
elements = Table(
    "elements",
    metadata,
    _id("eid"),
    Column("name", Text, nullable=False),
    Column("xml", LargeBinary, nullable=False),
    Column("added", Double, nullable=False),
    Column("origin", LargeBinary),
    Column("declared", Text, nullable=False),
    Column("outdated", Boolean, nullable=False),
    Column("held_by", Number),
)
contexts = Table("contexts", metadata, _id("run"), _id("eid"), sqlite_with_rowid=False)
marks = Table(
    "marks",
    metadata,
    # eid first: what is forgotten takes its marks along by a search, not a scan.
    _id("eid"),
    Column("definition", Text, primary_key=True),
    Column("place", Text, primary_key=True),
    Column("slot", Text, primary_key=True),
    sqlite_with_rowid=False,
)
keys = Table(
    "keys",
    metadata,
    Column("name", Text, primary_key=True),
    Column("expression", Text, primary_key=True),
    Column("value", Text, primary_key=True),
    sqlite_with_rowid=False,
)
runs = Table(
    "runs",
    metadata,
    _id("eid"),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("ended", Double),
    Column("parent_run", Number),
    Column("parent_step", Text, nullable=False),
    Column("parent_call", Text, nullable=False),
    Column("attempt", Number, nullable=False),
    Column("error", Number),
)
journal = Table(
    "journal",
    metadata,
    Column("run", Number, nullable=False),
    _id("seq"),
    Column("at", Double, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("journal_of_run", "run"),
)
snapshots = Table(
    "snapshots",
    metadata,
    _id("run"),
    Column("seq", Number, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
queue = Table(
    "queue",
    metadata,
    _id("id"),
    Column("run", Number, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
moments = Table(
    "moments",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at", Double, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
definitions = Table(
    "definitions",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("path", Text, nullable=False),
    Column("source", LargeBinary, nullable=False),
    Column("loaded", Double, nullable=False),
    Column("current", Boolean, nullable=False),
)


# --- the statements of the writer -----------------------------------------------------------------------

Rows = Sequence[Sequence[Any]]
Upsert: TypeAlias = "sqlite.Insert | postgresql.Insert"


class Write(NamedTuple):
    """What a filled slot of a batch makes the writer do: the SQL, and its rows (None: those of the slot)."""

    slot: str
    sql: str
    rows: Callable[[Batch], Rows] | None


def writes(dialect: Dialect) -> tuple[Write, ...]:
    """All that a batch can make the writer do, in the order it is done: first what comes, then what goes."""
    insert = _inserts(dialect)

    def put(table: Table) -> Insert:
        """What is there already under the key is replaced."""
        statement = insert(table)
        replaced = {column.name: statement.excluded[column.name] for column in _values(table)}
        return statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=replaced)

    def once(table: Table) -> Insert:
        """What is there already stays."""
        return insert(table).on_conflict_do_nothing()

    outdate = update(elements).where(_is(elements.c.eid)).values(outdated=true())
    undeclare = update(elements).where(_is(elements.c.eid)).values(declared=literal_column("''"))
    plan: list[tuple[str, Insert | Update | Delete, Callable[[Batch], Rows] | None]] = [
        ("definitions", _supersede(), _superseding),
        ("definitions", put(definitions), None),
        ("elements", insert(elements), _element_rows),
        ("outdated", outdate, _single("outdated")),
        ("undeclared", undeclare, _single("undeclared")),
        ("held", once(contexts), _held_rows),
        ("marks", once(marks), _mark_rows),
        ("keys", once(keys), None),
        ("runs", put(runs), None),
        ("journal", insert(journal), _entry_rows),
        ("snapshots", put(snapshots), None),
        ("queued", put(queue), None),
        ("moments", put(moments), None),
        ("meta", put(meta), None),
        ("trimmed", _trim(), lambda batch: [(run, seq, run, keep) for run, seq, keep in batch.trimmed]),
        ("dequeued", _gone(queue.c.id), _single("dequeued")),
        ("moments_done", _gone(moments.c.id), _single("moments_done")),
        ("unheld", _unhold(), None),
        ("unheld", _gone(contexts.c.run, contexts.c.eid), None),
        ("forgotten_elements", _gone(elements.c.eid), _single("forgotten_elements")),
        ("forgotten_elements", _gone(marks.c.eid), _single("forgotten_elements")),
        ("forgotten_runs", _gone(runs.c.eid), _single("forgotten_runs")),
        ("forgotten_runs", _gone(marks.c.eid), _single("forgotten_runs")),
        ("forgotten_runs", _gone(contexts.c.run), _single("forgotten_runs")),
        ("forgotten_runs", _gone(journal.c.run), _single("forgotten_runs")),
        ("forgotten_runs", _gone(snapshots.c.run), _single("forgotten_runs")),
    ]
    return tuple(Write(slot, sql(statement, dialect), rows) for slot, statement, rows in plan)


def sql(statement: Insert | Update | Delete, dialect: Dialect) -> str:
    """The text of a statement, its parameters by position."""
    return str(statement.compile(dialect=dialect))


def _inserts(dialect: Dialect) -> Callable[[Table], Upsert]:
    """The insert of a database that knows what to do about a row that is there already."""
    # Each dialect is imported when it is wanted: together they cost a start as much as the rest of narval.
    if dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        return sqlite_insert
    if dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert as postgresql_insert

        return postgresql_insert
    raise StoreError(f"expected a store on sqlite or postgresql, got: {dialect.name}")


def _values(table: Table) -> Iterable[Column[Any]]:
    return [column for column in table.columns if not column.primary_key]


def _is(column: Column[Any]) -> Any:
    return column == bindparam(f"the_{column.name}")


def _gone(column: Column[Any], *others: Column[Any]) -> Delete:
    return delete(column.table).where(_is(column), *map(_is, others))


def _trim() -> Delete:
    """The oldest entries of a run go, so many at once; an older store has more than a turn should drop."""
    columns = journal.c
    last = (
        select(columns.seq)
        .where(columns.run == bindparam("the_same_run"))
        .order_by(columns.seq.desc())
        .limit(literal_column("1"))
        .offset(bindparam("how_many"))
        .scalar_subquery()
    )
    oldest = (
        select(columns.seq)
        .where(_is(columns.run), columns.seq <= bindparam("the_line"), columns.seq <= last)
        .order_by(columns.seq)
        .limit(literal_column(str(TRIMMED_AT_ONCE)))
        .offset(literal_column("0"))  # SQLAlchemy would add a parameter for it
    )
    return delete(journal).where(columns.seq.in_(oldest))


def _unhold() -> Update:
    """The run that made an element holds it no more."""
    columns = elements.c
    return (
        update(elements).where(_is(columns.held_by), _is(columns.eid)).values(held_by=literal_column("NULL"))
    )


def _supersede() -> Update:
    """Other versions of a definition are not the current one any more."""
    columns = definitions.c
    return (
        update(definitions)
        .where(_is(columns.kind), _is(columns.name), columns.digest != bindparam("the_digest"))
        .values(current=literal_column("false"))
    )


def _superseding(batch: Batch) -> Rows:
    return [(row.kind, row.name, row.digest) for row in batch.definitions if row.current]


def _element_rows(batch: Batch) -> Rows:
    holders = _holders(batch)
    return [
        (
            element.eid,
            element.name,
            element.xml,
            element.added,
            encode_origin(element.origin),
            declared,
            False,
            holders.get(element.eid),
        )
        for element, declared in ((added.element, added.declared) for added in batch.elements)
    ]


def _held_rows(batch: Batch) -> Rows:
    if not batch.elements:
        return batch.held
    holders = _holders(batch)
    return [(run, eid) for run, eid in batch.held if holders.get(eid) != run]


def _holders(batch: Batch) -> dict[int, int]:
    """The run that holds a new element, the first where there are several."""
    new = {added.element.eid for added in batch.elements}
    return {eid: run for run, eid in reversed(batch.held) if eid in new}


def _mark_rows(batch: Batch) -> Rows:
    return [(eid, definition, place, slot) for definition, place, slot, eid in batch.marks]


def _entry_rows(batch: Batch) -> Rows:
    return [
        (run, seq, event.at, encode_entry(event, changes, commands))
        for run, seq, event, changes, commands in batch.journal
    ]


def _single(slot: str) -> Callable[[Batch], Rows]:
    return lambda batch: [(value,) for value in getattr(batch, slot)]

"""The statements of the store, over the tables of `columns.py` (docs/reference/store.md).

SQLAlchemy Core defines both and writes the SQL for the database in use, which is handed to the driver's own
cursor: Core's execute costs ten times a SQLite insert. What it writes for SQLite stands in `sqlite.sql` (see
`statements.py`): a start with a file does not import this module. After a change of it:

    python -m narval.store.tables
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import (
    Column,
    CompoundSelect,
    Delete,
    Dialect,
    Insert,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from narval.core.elements.control_elements import STARTING
from narval.core.errors import StoreError
from narval.store.columns import (
    agents,
    contexts,
    dead_letters,
    definitions,
    elements,
    journal,
    keys,
    marks,
    messages,
    meta,
    metadata,
    moments,
    queue,
    runs,
    snapshots,
    stamp,
    taken,
    texts,
)
from narval.store.statements import HEADING, KEPT_OF_AGENTS, SQLITE

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

TRIMMED_AT_ONCE = 5_000
"""So many entries of a run are dropped in one turn at most."""

# --- the statements -------------------------------------------------------------------------------------

Upsert: TypeAlias = "sqlite.Insert | postgresql.Insert"
Statement: TypeAlias = "Select[Any] | CompoundSelect[Any] | Insert | Update | Delete"


def statements(dialect: Dialect) -> dict[str, str]:
    """The text of each statement of the store by its name, parameters by position."""
    named: dict[str, Statement] = {**_writing(dialect), **_reading(), **_beginning()}
    return {
        "schema": ";\n\n".join(_schema(dialect)),
        **{name: str(statement.compile(dialect=dialect)) for name, statement in named.items()},
    }


def _schema(dialect: Dialect) -> Iterator[str]:
    """The statements that make the tables of an empty database."""
    for table in metadata.sorted_tables:
        yield str(CreateTable(table).compile(dialect=dialect)).strip()
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            yield str(CreateIndex(index).compile(dialect=dialect)).strip()


def _writing(dialect: Dialect) -> dict[str, Statement]:
    """The statements of the writer; `statements.WRITES` has their order."""
    insert_into = _inserts(dialect)

    def insert(table: Table, *empty: str) -> Upsert:
        """A row in all but the number of its line, which the database gives, and what stays empty."""
        given = [column.name for column in table.columns if column.name not in ("line", *empty)]
        return insert_into(table).values({name: bindparam(name) for name in given}).inline()

    def put(table: Table) -> Upsert:
        """Replace the row that is there under the key."""
        statement = insert(table)
        replaced = {column.name: statement.excluded[column.name] for column in _values(table)}
        return statement.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=replaced)

    def once(table: Table) -> Upsert:
        """Leave the row that is there."""
        return insert(table).on_conflict_do_nothing()

    return {
        "put agent": put(agents),
        "supersede definition": _supersede(),
        "add text": once(texts),
        "put definition": put(definitions),
        "retire definition": update(definitions)
        .where(*_are(definitions, "digest", "kind", "name"))
        .values(current=literal_column("false")),
        "share element": insert(elements),
        "add element": insert(elements, "text"),
        "outdate element": update(elements).where(*_are(elements, "eid")).values(outdated=true()),
        "undeclare element": update(elements)
        .where(*_are(elements, "eid"))
        .values(declared=literal_column("''")),
        "hold": once(contexts),
        "mark": once(marks),
        "add key": once(keys),
        "put run": put(runs),
        "add entry": insert(journal),
        "put snapshot": put(snapshots),
        "put event": put(queue),
        "put moment": put(moments),
        "put meta": put(meta),
        "add message": insert(messages),
        "put taken": put(taken),
        "add dead letter": insert(dead_letters),
        "trim journal": _trim(),
        "drop event": _gone(queue, "id"),
        "drop moment": _gone(moments, "id"),
        "drop messages": delete(messages).where(
            *_are(messages, "sender"), messages.c.number <= bindparam("up_to")
        ),
        "drop dead letter": _gone(dead_letters, "line"),
        "drop old dead letters": delete(dead_letters).where(
            _is(dead_letters.c.agent), dead_letters.c.at < bindparam("before")
        ),
        "unhold by its maker": _unhold(),
        "unhold": _gone(contexts, "run", "eid"),
        "drop element": _gone(elements, "eid"),
        "drop marks": _gone(marks, "eid"),
        "drop run": _gone(runs, "eid"),
        "drop context": _gone(contexts, "run"),
        "drop entries": _gone(journal, "run"),
        "drop snapshot": _gone(snapshots, "run"),
        **{f"remove {name}": _gone(metadata.tables[name]) for name in KEPT_OF_AGENTS},
    }


def _reading() -> dict[str, Statement]:
    """The queries of the readers, of one agent each; None as a parameter that narrows leaves all in."""
    versions, of = definitions.c, journal.c
    of_versions = _with_texts(definitions, "loaded", "kind", "name")
    entries = _all(journal).where(_is(of.run)).limit(bindparam("most")).offset(literal_column("0"))
    return {
        "agent": select(*agents.columns).where(_is(agents.c.agent)),
        "agents": select(*agents.columns).order_by(agents.c.agent),
        "held by agents": _held_by_agents(),
        "elements": _with_texts(elements, "eid"),
        "element": _with_texts(elements).where(_is(elements.c.eid)),
        "elements of files": _with_texts(elements, "eid").where(_of_files()),
        "last eids": union_all(*(select(func.max(c.eid)).where(_is(c.agent)) for c in (elements.c, runs.c))),
        "marks of element": _all(marks, "definition", "place", "slot").where(_is(marks.c.eid)),
        "contexts": _held(),
        "marks": _all(marks, "eid", "definition", "place", "slot"),
        "keys": _all(keys, "name", "expression", "value"),
        "events": _all(queue, "id"),
        "moments": _all(moments, "at", "id"),
        "meta": _all(meta, "key"),
        "runs": _all(runs, "eid"),
        "runs before": _before(runs),
        "entries of run": entries.where(of.seq > bindparam("after")).order_by(of.line),
        "entries before": entries.where(of.seq < bindparam("before")).order_by(of.line.desc()),
        "snapshot": _all(snapshots).where(_is(snapshots.c.run)),
        "entries under way": _under_way(journal).where(journal.c.seq > _last_saved()),
        "snapshots under way": _under_way(snapshots),
        "definitions": of_versions.where(_narrowed(versions.current), _narrowed(versions.name)),
        "definition": _with_texts(definitions).where(_is(versions.digest)),
        "current versions": select(versions.kind, versions.name, versions.digest).where(
            _is(versions.agent), versions.current
        ),
        **_reading_letters(),
    }


def _reading_letters() -> dict[str, Statement]:
    """The queries about messages: of all, of a receiver, of a pair; and the dead letters of a sender."""
    columns = messages.c
    pair = (_is(columns.agent), _is(columns.sender))
    pairs, size = (columns.agent, columns.sender), func.sum(func.length(columns.data))
    counted = (*pairs, func.count(), size, func.min(columns.until), func.max(columns.number))
    there = exists().where(agents.c.agent == columns.agent)
    known = (*pairs, taken.c.agent, taken.c.sender)
    return {
        "waiting messages": select(*counted).group_by(*pairs).order_by(*pairs),
        "messages": select(*columns).where(_is(columns.agent)).order_by(columns.sender, columns.number),
        "taken": select(*taken.columns).where(_is(taken.c.agent)).order_by(taken.c.sender),
        "messages of sender": select(*columns).where(pair[1]).order_by(columns.agent, columns.number),
        "stray messages": select(*columns).where(~there).order_by(columns.sender, columns.number),
        "ids of pair": select(columns.id).where(*pair),
        "last sent": union_all(
            select(func.max(columns.number)).where(*pair),
            select(func.max(taken.c.number)).where(*_are(taken, "sender")),
        ),
        "last correspondents": union_all(*(select(func.max(number)) for number in known)),
        "dead letters": select(*dead_letters.columns)
        .where(_is(dead_letters.c.agent))
        .order_by(dead_letters.c.line),
    }


def _beginning() -> dict[str, Statement]:
    """The statements of a start."""
    versions = definitions.c
    needed = tuple_(versions.agent, versions.digest).in_(select(runs.c.agent, runs.c.digest))
    return {
        "version": select(stamp.c.version_num),
        "stamp": stamp.insert(),
        "drop definitions": delete(definitions).where(versions.current.is_(False), ~needed),
        "drop texts": delete(texts).where(
            texts.c.digest.not_in(select(versions.text)),
            ~exists(select(elements.c.line).where(elements.c.text == texts.c.digest)),
        ),
    }


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


def _are(table: Table, *keys: str) -> list[Any]:
    """The conditions that a row is of the agent given, and has the keys given."""
    return [_is(table.c[name]) for name in ("agent", *keys)]


def _gone(table: Table, *keys: str) -> Delete:
    return delete(table).where(*_are(table, *keys))


def _trim() -> Delete:
    """The oldest entries of a run go, so many at once: where a run kept more so far, it has more than a turn
    should drop.
    """
    columns = journal.c
    last = (
        select(columns.line)
        .where(*_are(journal, "run"))
        .order_by(columns.line.desc())
        .limit(literal_column("1"))
        .offset(bindparam("how_many"))
        .scalar_subquery()
    )
    oldest = (
        select(columns.line)
        .where(*_are(journal, "run"), columns.seq <= bindparam("up_to"), columns.line <= last)
        .order_by(columns.line)
        .limit(literal_column(str(TRIMMED_AT_ONCE)))
        .offset(literal_column("0"))  # SQLAlchemy would add a parameter for it
    )
    return delete(journal).where(columns.line.in_(oldest))


def _unhold() -> Update:
    """The run that made an element holds it no more."""
    return update(elements).where(*_are(elements, "held_by", "eid")).values(held_by=literal_column("NULL"))


def _supersede() -> Update:
    """Other versions of a definition are not the current one any more."""
    columns = definitions.c
    return (
        update(definitions)
        .where(*_are(definitions, "kind", "name"), columns.digest != bindparam("the_digest"))
        .values(current=literal_column("false"))
    )


def _held_by_agents() -> CompoundSelect[Any]:
    """Of each agent, the number of its elements, then of its runs and of the active ones among them."""
    active = func.count().filter(runs.c.phase == literal_column("'active'"))
    elements_of = select(elements.c.agent, func.count(), literal_column("0")).group_by(elements.c.agent)
    return union_all(elements_of, select(runs.c.agent, func.count(), active).group_by(runs.c.agent))


def _all(table: Table, *order: str) -> Select[Any]:
    """Every row of the agent given, without its place, by some columns."""
    shown = [column for column in table.columns if column.name not in ("line", "agent")]
    return select(*shown).where(_is(table.c.agent)).order_by(*(table.c[name] for name in order))


def _with_texts(table: Table, *order: str) -> Select[Any]:
    """Every row of the agent given, by some columns, with the bytes of the text that it names (G4)."""
    xml = func.coalesce(texts.c.data, elements.c.xml)
    found: dict[Any, Any] = {elements.c.xml: xml, definitions.c.text: texts.c.data}
    rows = _all(table, *order)
    shown = (found.get(of, of) for of in rows.selected_columns if of is not elements.c.text)
    both = table.outerjoin(texts, texts.c.digest == table.c.text)
    return rows.with_only_columns(*shown).select_from(both)


def _under_way(table: Table) -> Select[Any]:
    """The rows of active runs, in no order, from one eid to another."""
    of = runs.c
    active = select(of.eid).where(
        of.agent == bindparam("of_agent"),
        of.phase == literal_column("'active'"),
        of.eid.between(bindparam("first"), bindparam("last")),
    )
    return _all(table).where(table.c.run.in_(active))


def _last_saved() -> Any:
    """The last entry that is part of the snapshot of its run; 0 without one."""
    saved, entries = snapshots.c, journal.c
    last = select(saved.seq).where(saved.agent == entries.agent, saved.run == entries.run)
    return func.coalesce(last.scalar_subquery(), literal_column("0"))


def _narrowed(column: Column[Any]) -> Any:
    """The condition that a column, which is never null, has the value given; true where none is."""
    return column == func.coalesce(bindparam(f"the_{column.name}", type_=column.type), column)


def _of_files() -> Any:
    """The condition that an element matters when memory is compared with the files of a home."""
    columns = elements.c
    named = (columns.name == literal_column(f"'{name}'") for name in STARTING)
    return or_(columns.declared != literal_column("''"), *named)


def _before(table: Table) -> Select[Any]:
    """The rows of lower eids than the one given, the youngest first."""
    eid = table.c.eid
    return _all(table).where(eid < bindparam("before")).order_by(eid.desc())


def _held() -> CompoundSelect[Any]:
    """Run and eid, of elements and runs that are there: a look for each, whatever the number of runs."""
    makers, others = elements.c, contexts.c

    def there(table: Table, holder: Column[Any], eid: Column[Any]) -> Any:
        return exists(select(table.c.eid).where(table.c.agent == holder, table.c.eid == eid))

    return union_all(
        select(makers.held_by.label("run"), makers.eid).where(
            _is(makers.agent), there(runs, makers.agent, makers.held_by)
        ),
        select(others.run, others.eid).where(
            _is(others.agent),
            there(runs, others.agent, others.run),
            or_(there(elements, others.agent, others.eid), there(runs, others.agent, others.eid)),
        ),
    ).order_by("run", "eid")


# --- SQLite's, written down -----------------------------------------------------------------------------


def sqlite_text() -> str:
    """The text of `sqlite.sql`."""
    from sqlalchemy.dialects import sqlite

    return written(statements(sqlite.dialect()), "narval.store.tables")


def written(known: Mapping[str, str], by: str) -> str:
    """The text of a file that has statements by their names, written by a module."""
    title = f"-- Written by `python -m {by}`, from the tables and statements of that module.\n"
    text = title + "".join(f"\n{HEADING}{name}\n{sql};\n" for name, sql in known.items())
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


if __name__ == "__main__":
    SQLITE.write_text(sqlite_text())

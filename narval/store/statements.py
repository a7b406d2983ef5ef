"""The statements of the store in the language of a database, from its tables and slots.

The driver's own cursors execute them. The queries are written once, for both databases: `{runs}` is a table
with the columns that a reader has of it, `?` a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from narval import __version__
from narval.core.elements.names import STARTING
from narval.store.batch import DEFAULT_NAME, FILES, HOME_AGENT, STORE, new_agent
from narval.store.slots import Alter, Each, Effect, Insert, RowsOf, Slot, by_field
from narval.store.tables import AGENTS, HEAD, META, TABLES, Dialect, Table, plain_type, quoted

_UNDER_WAY = "run IN (SELECT eid FROM runs WHERE agent = ? AND phase = 'active' AND eid BETWEEN ? AND ?)"

_PAIR = "agent = ? AND sender = ?"

_STARTING = ", ".join(f"'{name}'" for name in STARTING).replace("{", "{{").replace("}", "}}")

KEYS_AT_ONCE = 50
"""The keys of results that are looked up at once."""

QUERIES = {
    # of one agent each; None for a parameter that narrows selects all
    "agent": "SELECT {agents} WHERE agent = ?",
    "agents": "SELECT {agents} ORDER BY agent",
    # of each agent, the number of its elements, then of its runs and of the active ones among them
    "held by agents": """
        SELECT agent, count(*), 0 FROM elements GROUP BY agent UNION ALL
        SELECT agent, count(*), count(*) FILTER (WHERE phase = 'active') FROM runs GROUP BY agent""",
    "facts of agents": """
        SELECT agents.name, meta.value FROM meta JOIN agents ON agents.agent = meta.agent
        WHERE meta."key" = ? ORDER BY agents.name""",
    "elements": "SELECT {elements} WHERE elements.agent = ? ORDER BY elements.eid",
    "element": "SELECT {elements} WHERE elements.agent = ? AND elements.eid = ?",
    # for the comparison of memory with the files of a home
    "elements of files": f"""
        SELECT {{elements}}
        WHERE elements.agent = ? AND (elements.declared <> '' OR elements.name IN ({_STARTING}))
        ORDER BY elements.eid""",
    "last eids": """
        SELECT max(eid) FROM elements WHERE agent = ?
        UNION ALL SELECT max(eid) FROM runs WHERE agent = ?""",
    "marks of element": """
        SELECT {marks} WHERE agent = ? AND eid = ? ORDER BY definition, place, slot""",
    # run and eid, of existing elements and runs: one look-up for each, whatever the number of runs
    "contexts": """
        SELECT held_by AS run, eid FROM elements WHERE agent = ? AND EXISTS (
            SELECT 1 FROM runs WHERE runs.agent = elements.agent AND runs.eid = elements.held_by)
        UNION ALL SELECT run, eid FROM contexts WHERE agent = ? AND EXISTS (
            SELECT 1 FROM runs WHERE runs.agent = contexts.agent AND runs.eid = contexts.run)
        AND (EXISTS (
            SELECT 1 FROM elements WHERE elements.agent = contexts.agent AND elements.eid = contexts.eid)
        OR EXISTS (SELECT 1 FROM runs WHERE runs.agent = contexts.agent AND runs.eid = contexts.eid))
        ORDER BY run, eid""",
    "marks": "SELECT {marks} WHERE agent = ? ORDER BY eid, definition, place, slot",
    "withdrawals": "SELECT {withdrawals} WHERE agent = ? ORDER BY eid",
    "labels": "SELECT {labels} WHERE agent = ? ORDER BY eid, label",
    "keys": "SELECT {keys} WHERE agent = ? ORDER BY name, expression, value",
    "events": "SELECT {queue} WHERE agent = ? ORDER BY id",
    "moments": "SELECT {moments} WHERE agent = ? ORDER BY at, id",
    "meta": 'SELECT {meta} WHERE agent = ? ORDER BY "key"',
    "runs": "SELECT {runs} WHERE agent = ? ORDER BY eid",
    "runs before": "SELECT {runs} WHERE agent = ? AND eid < ? ORDER BY eid DESC",
    "entries of run": """
        SELECT {journal} WHERE agent = ? AND run = ? AND seq > ? ORDER BY line LIMIT ?""",
    "entries before": """
        SELECT {journal} WHERE agent = ? AND run = ? AND seq < ? ORDER BY line DESC LIMIT ?""",
    "entries since": "SELECT {journal} WHERE agent = ? AND at >= ? ORDER BY line",
    "snapshot": "SELECT {snapshots} WHERE agent = ? AND run = ?",
    # of active runs, in no order, from one eid to another; the entries since the last snapshot
    "entries under way": f"""
        SELECT {{journal}} WHERE agent = ? AND {_UNDER_WAY} AND seq > coalesce((
            SELECT seq FROM snapshots WHERE agent = journal.agent AND run = journal.run), 0)""",
    "snapshots under way": f"SELECT {{snapshots}} WHERE agent = ? AND {_UNDER_WAY}",
    "definitions": """
        SELECT {definitions} WHERE definitions.agent = ?
        AND definitions.current = coalesce(?, definitions.current)
        AND definitions.name = coalesce(?, definitions.name)
        ORDER BY definitions.loaded, definitions.kind, definitions.name""",
    "definition": "SELECT {definitions} WHERE definitions.agent = ? AND definitions.digest = ?",
    "current versions": "SELECT kind, name, digest FROM definitions WHERE agent = ? AND current = true",
    # of results, the newest first, or those of some keys; and the scopes with their numbers
    "results": 'SELECT {results} WHERE agent = ? AND scope = ? ORDER BY at DESC, "key" LIMIT ?',
    "results of files": f"""
        SELECT {{results}} WHERE agent = ? AND scope = '{FILES}' ORDER BY at DESC, "key" """,
    "results of keys": f"""
        SELECT {{results}} WHERE agent = ? AND scope = ? AND "key" IN ({', '.join('?' * KEYS_AT_ONCE)})""",
    "scopes": "SELECT scope, count(*) FROM results WHERE agent = ? GROUP BY scope ORDER BY scope",
    # of messages: of all, of a receiver, of a pair; and the dead letters of a sender
    "waiting messages": """
        SELECT agent, sender, count(*), sum(length(data)), min(until),
            min(CASE WHEN until > ? THEN until END), max(number) FROM messages
        GROUP BY agent, sender ORDER BY agent, sender""",
    "message pairs": """
        SELECT agent, sender, max(sent), max(gone), max(many), min(oldest) FROM (
            SELECT agent, sender, number AS sent, number AS gone, 0 AS many, NULL AS oldest FROM taken
            UNION ALL SELECT agent, sender, max(number), 0, count(*), min(at) FROM messages
            GROUP BY agent, sender) AS pairs
        WHERE ? IN (0, agent, sender) GROUP BY agent, sender
        ORDER BY max(many) DESC, max(sent) DESC, agent, sender LIMIT ?""",
    "messages": "SELECT {messages} WHERE agent = ? ORDER BY sender, number",
    "messages at the start": "SELECT {messages} WHERE agent = ? ORDER BY sender, number",
    "taken": "SELECT {taken} WHERE agent = ? ORDER BY sender",
    "messages of sender": "SELECT {messages} WHERE sender = ? ORDER BY agent, number",
    "stray messages": """
        SELECT {messages} WHERE NOT EXISTS (
            SELECT 1 FROM agents WHERE agents.agent = messages.agent)
        ORDER BY sender, number""",
    "ids of pair": f"SELECT id FROM messages WHERE {_PAIR}",
    "last sent": f"""
        SELECT max(number) FROM messages WHERE {_PAIR}
        UNION ALL SELECT max(number) FROM taken WHERE {_PAIR}""",
    "last correspondents": """
        SELECT max(agent) FROM messages UNION ALL SELECT max(sender) FROM messages
        UNION ALL SELECT max(agent) FROM taken UNION ALL SELECT max(sender) FROM taken""",
    "dead letters": "SELECT line, {dead_letters} WHERE agent = ? ORDER BY line",
    # of a start
    "version": "SELECT number FROM version",
    "drop definitions": """
        DELETE FROM definitions WHERE current = false
        AND (agent, digest) NOT IN (SELECT agent, digest FROM runs)""",
    "drop texts": """
        DELETE FROM texts WHERE digest NOT IN (SELECT text FROM definitions)
        AND NOT EXISTS (SELECT 1 FROM elements WHERE elements.text = texts.digest)""",
}  # fmt: skip


@cache
def statements(dialect: Dialect) -> Mapping[str, str]:
    """The text of each statement by its name: the queries, those that put a fact or an agent, the schema."""
    read = {table.name: _as_read(table) for table in TABLES}
    named = {name: text.format_map(read).replace("?", dialect.mark) for name, text in QUERIES.items()}
    for name, table in (("put meta", META), ("put agent", AGENTS)):
        marks = ", ".join([dialect.mark] * len(table.columns))
        named[name] = inserted(Insert(table, "replace"), f"VALUES ({marks})")
    named |= {f"mentions in {table.name}": _mentions(table, dialect) for table in TABLES if _texts(table)}
    schema = ";\n\n".join(text for table in TABLES for text in table.schema(dialect))
    return {name: " ".join(text.split()) for name, text in named.items()} | {"schema": schema}


def _texts(table: Table) -> tuple[str, ...]:
    """The columns of a table with texts, or with bytes that may contain texts."""
    return tuple(name for name, kind in table.columns.items() if plain_type(kind) in (str, bytes))


MENTIONING = {f"mentions in {table.name}": len(_texts(table)) for table in TABLES if _texts(table)}
"""The queries for values that contain a text, with the number of times that each takes the text."""


def _mentions(table: Table, dialect: Dialect) -> str:
    """The query for the rows of a table with a column that contains a text."""
    of_bytes, of_text = _HAS[dialect.name]
    conditions = (
        (of_bytes if plain_type(table.columns[name]) is bytes else of_text).format(name)
        for name in _texts(table)
    )
    texts = ", ".join(f'"{name}"' for name in _texts(table))
    return f"SELECT {texts} FROM {table.name} WHERE {' OR '.join(conditions)}"


_HAS = {
    "sqlite": ('instr("{0}", CAST(? AS BLOB)) > 0', 'instr("{0}", ?) > 0'),
    "postgresql": ("position(convert_to(%s, 'UTF8') in \"{0}\") > 0", 'position(%s::text in "{0}") > 0'),
}
"""The conditions that bytes, and a text, contain a text, by dialect."""


def _as_read(table: Table) -> str:
    """A table with the columns of its row, and the bytes of the text that it refers to."""
    columns = {
        name: f'{table.name}."{name}"' for name in table.columns if name != "agent" or table.row_has_agent
    }
    if "text" not in columns:
        return f"{', '.join(columns.values())} FROM {table.name}"
    text = columns["text"]
    if "xml" in columns:
        columns["xml"] = f"coalesce(texts.data, {columns['xml']})"
        del columns["text"]
    else:
        columns["text"] = "texts.data"
    return f"{', '.join(columns.values())} FROM {table.name} LEFT JOIN texts ON texts.digest = {text}"


def inserted(insert: Insert, source: str) -> str:
    """The statement that inserts rows which come from `source`."""
    table = insert.table
    text = f"INSERT INTO {table.name} ({quoted(table.columns)}) {source}"
    if insert.conflict == "keep":
        return f"{text} ON CONFLICT DO NOTHING"
    if insert.conflict == "replace":
        replaced = ", ".join(
            f'"{name}" = excluded."{name}"' for name in table.columns if name not in table.key
        )
        return f"{text} ON CONFLICT ({quoted(table.key)}) DO UPDATE SET {replaced}"
    return text


def make_schema(cursor: Any, statements: Mapping[str, str]) -> None:
    """Make the tables of an empty database, with their version, so that nothing needs migration, and the
    home's own agent.
    """
    for statement in statements["schema"].split(";\n\n"):
        cursor.execute(statement)
    cursor.execute(f"INSERT INTO version VALUES ({HEAD})")
    cursor.executemany(statements["put meta"], [(STORE, "narval", __version__), (STORE, "clean", "1")])
    cursor.execute(statements["put agent"], new_agent(HOME_AGENT, DEFAULT_NAME))


# --- SQLite's statements for each row ------------------------------------------------------------------

Write = tuple[str, int]
"""A statement, and the number of a row's first columns that it takes."""


@cache
def writes() -> dict[str, list[tuple[RowsOf, tuple[Write, ...]]]]:
    """By field of a batch, the functions that make its rows, and SQLite's statements for each row."""
    return by_field(lambda slot: tuple(for_each_row(slot)))


def for_each_row(slot: Slot) -> Iterator[Write]:
    """The statements of SQLite that are the effects of a row of a slot."""
    places = {name: place for place, name in enumerate(slot.columns, 1)}
    for effect in slot.effects:
        text = re.sub(r'\bnew\."?(\w+)"?', lambda named: f"?{places[named[1]]}", _for_a_row(effect))
        yield text, max(map(int, re.findall(r"\?(\d+)", text)))


def _for_a_row(effect: Effect) -> str:
    if isinstance(effect, Insert):
        values = ", ".join(f'new."{name}"' for name in effect.table.columns)
        return inserted(effect, f"VALUES ({values})")
    if isinstance(effect, Each):
        return " ".join(effect.statement.split())
    return altered(effect)


def altered(effect: Alter, from_table: str = "") -> str:
    """The statement that alters or drops rows of a table, by those that are `given`."""
    table, condition = effect.table.name, effect.condition
    if effect.change:
        source = f" FROM {from_table}" if from_table else ""
        return f"UPDATE {table} AS old SET {effect.change}{source} WHERE {condition}"
    source = f" USING {from_table}" if from_table else ""
    return f"DELETE FROM {table} AS old{source} WHERE {condition}"

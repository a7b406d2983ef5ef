"""The texts of what a server has besides the tables: leases, types of rows, the function `record` (G47).

It stands in `postgres.sql` with the tables and statements. After a change of it:

    python -m narval.store.postgresql.functions

The function has the version of the tables in its name, and a digest of its text: so daemons of two versions
find each their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from narval.store.batch import LETTERS_KEPT
from narval.store.postgresql.shapes import SHAPES, TYPE_NAMES
from narval.store.postgresql.statements import FENCED, POSTGRES
from narval.store.statements import HEAD, KEPT_OF_AGENTS
from narval.store.tables import TRIMMED_AT_ONCE, statements, written

LEASES = """\
CREATE TABLE daemons (
	daemon BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	home TEXT NOT NULL UNIQUE,
	address TEXT NOT NULL,
	version TEXT NOT NULL,
	digest TEXT NOT NULL,
	started TIMESTAMPTZ NOT NULL,
	until TIMESTAMPTZ NOT NULL,
	draining BOOLEAN NOT NULL DEFAULT false
);

CREATE TABLE leases (
	agent BIGINT PRIMARY KEY,
	home TEXT NOT NULL DEFAULT '',
	owner BIGINT,
	epoch BIGINT NOT NULL DEFAULT 0,
	turn BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE INDEX leases_by_owner ON leases (owner);

CREATE TABLE collections (
	name TEXT PRIMARY KEY,
	digest TEXT NOT NULL,
	files BYTEA NOT NULL,
	published TIMESTAMPTZ NOT NULL,
	by TEXT NOT NULL
);

INSERT INTO leases (agent) SELECT agent FROM agents"""


def record_name() -> str:
    """The name of the function."""
    return f"record_{HEAD}_{hashlib.sha256(_text('record').encode()).hexdigest()[:8]}"


def _text(name: str) -> str:
    """The statements that make the types and the function under that name."""
    return ";\n\n".join((*_types(name), _function(name)))


def _types(name: str) -> Iterator[str]:
    for slot, shape in SHAPES.items():
        columns = ", ".join(f'"{column}" {TYPE_NAMES[letter]}' for column, letter in shape.columns)
        yield f"CREATE TYPE {name}_{slot} AS ({columns})"


def _function(name: str) -> str:
    given = ",\n\t".join(("the_daemon bigint", *(f"the_{slot} {name}_{slot}[]" for slot in SHAPES)))
    body = "".join(f"\t{line}\n".replace("\t\n", "\n") for line in _body())
    return (
        f"CREATE FUNCTION {name}(\n\t{given}\n) RETURNS bigint[] LANGUAGE plpgsql AS $record$\n"
        f"#variable_conflict use_column\nDECLARE\n{_VARIABLES}BEGIN\n{body}\tRETURN made;\nEND\n$record$"
    )


_VARIABLES = "\theld bigint;\n\tlost text;\n\tmade bigint[];\n\tgone bigint[];\n\tone record;\n"


def _body() -> Iterator[str]:
    """The statements in the order of `statements.WRITES`; those of a slot that is empty are passed over."""
    yield from _if("fence", *_FENCE.splitlines())
    yield from _if("agents", *_MAKING.splitlines(), f"{_insert('agents', _MINE)} {_replacing('agents')};")
    yield from _if(
        "definitions",
        "UPDATE definitions AS old SET current = false FROM unnest(the_definitions) AS new",
        f"\tWHERE new.current AND {_same('agent', 'kind', 'name')} AND old.digest <> new.digest;",
        f"{_insert('definitions')} {_replacing('definitions')};",
    )
    yield from _if("texts", _SHARED, f"{_insert('texts')} ON CONFLICT DO NOTHING;")
    yield from _if("retired", _update("definitions", "retired", "current = false", "digest", "kind", "name"))
    yield from _if("elements", f"{_insert('elements')};")
    yield from _if("outdated", _update("elements", "outdated", "outdated = true", "eid"))
    yield from _if("undeclared", _update("elements", "undeclared", "declared = ''", "eid"))
    for slot in ("contexts", "marks", "keys"):
        yield from _if(slot, f"{_insert(slot)} ON CONFLICT DO NOTHING;")
    yield from _if("runs", f"{_insert('runs')} {_replacing('runs')};")
    yield from _if("journal", f"{_insert('journal')};")
    for slot in ("snapshots", "queue", "moments", "meta"):
        yield from _if(slot, f"{_insert(slot)} {_replacing(slot)};")
    yield from _if("messages", f"{_insert('messages')};")
    yield from _if(
        "taken",
        f"{_insert('taken')} {_replacing('taken')};",
        "DELETE FROM messages AS old USING unnest(the_taken) AS new",
        f"\tWHERE {_same('agent', 'sender')} AND old.number <= new.number;",
    )
    yield from _if(
        "dead_letters",
        f"{_insert('dead_letters')};",
        "DELETE FROM dead_letters AS old USING unnest(the_dead_letters) AS new",
        f"\tWHERE old.agent = new.agent AND old.at < new.at - {LETTERS_KEPT};",
    )
    yield from _if("trimmed", *_TRIM.splitlines())
    yield from _if("dequeued", _delete("queue", "dequeued", "id"))
    yield from _if("moments_done", _delete("moments", "moments_done", "id"))
    yield from _if("letters_settled", _delete("dead_letters", "letters_settled", "line"))
    yield from _if(
        "unheld",
        _update("elements", "unheld", "held_by = NULL", "held_by=run", "eid"),
        _delete("contexts", "unheld", "run", "eid"),
    )
    gone = "forgotten_elements"
    yield from _if(gone, _delete("elements", gone, "eid"), _delete("marks", gone, "eid"))
    gone = "forgotten_runs"
    yield from _if(
        gone,
        _delete("runs", gone, "eid=run"),
        _delete("marks", gone, "eid=run"),
        *(_delete(table, gone, "run") for table in ("contexts", "journal", "snapshots")),
    )
    yield from _if("removed_agents", *_REMOVING.splitlines(), *_REMOVED)


def _if(slot: str, *lines: str) -> Iterator[str]:
    yield f"IF the_{slot} IS NOT NULL THEN"
    yield from (f"\t{line}" for line in lines)
    yield "END IF;"


_FENCE = f"""\
IF cardinality(the_fence) = 1 THEN  -- half the time of the other
	UPDATE leases SET turn = turn + 1 WHERE agent = the_fence[1].agent
		AND epoch = the_fence[1].epoch AND turn = the_fence[1].turn AND owner = the_daemon;
ELSE
	UPDATE leases AS old SET turn = old.turn + 1 FROM unnest(the_fence) AS new
		WHERE old.agent = new.agent AND old.epoch = new.epoch AND old.turn = new.turn
			AND old.owner = the_daemon;
END IF;
GET DIAGNOSTICS held = ROW_COUNT;
IF held <> cardinality(the_fence) THEN
	SELECT string_agg(new.agent::text, ',') INTO lost FROM unnest(the_fence) AS new WHERE NOT EXISTS (
		SELECT FROM leases AS old WHERE old.agent = new.agent AND old.epoch = new.epoch
			AND old.turn = new.turn + 1 AND old.owner = the_daemon);
	-- A commit of the same daemon, whose connection was cut, may have come first: then it is all of them.
	SELECT coalesce(lost, string_agg(agent::text, ',')) INTO lost FROM unnest(the_fence);
	RAISE EXCEPTION 'fenced' USING ERRCODE = '{FENCED}', DETAIL = lost;
END IF;"""

_MAKING = """\
WITH new AS (INSERT INTO leases (agent, owner, epoch)
	SELECT agent, nullif(the_daemon, 0), 1 FROM unnest(the_agents) ON CONFLICT DO NOTHING RETURNING agent)
	SELECT array_agg(agent) INTO made FROM new;
IF the_daemon <> 0 AND EXISTS (SELECT FROM unnest(the_agents) AS new JOIN agents AS old
		ON old.agent = new.agent WHERE old.id <> new.id) THEN
	RAISE unique_violation USING MESSAGE = 'another agent has that number';
END IF;"""

_MINE = (
    " AS new WHERE the_daemon = 0 OR EXISTS ("
    "SELECT FROM leases AS old WHERE old.agent = new.agent AND old.owner = the_daemon)"
)

_SHARED = "PERFORM pg_advisory_xact_lock_shared(hashtext('narval'), hashtext(current_schema()));"

_TRIM = f"""\
FOR one IN SELECT * FROM unnest(the_trimmed) LOOP
	DELETE FROM journal WHERE line IN (SELECT line FROM journal
		WHERE agent = one.agent AND run = one.run AND seq <= one.seq AND line <= (SELECT line FROM journal
			WHERE agent = one.agent AND run = one.run ORDER BY line DESC LIMIT 1 OFFSET one.keep)
		ORDER BY line LIMIT {TRIMMED_AT_ONCE});
END LOOP;"""

_REMOVING = """\
SELECT array_agg(new.agent) INTO gone FROM unnest(the_removed_agents) AS new WHERE the_daemon = 0 OR EXISTS (
	SELECT FROM leases AS old WHERE old.agent = new.agent AND old.owner = the_daemon);"""


_STRAYS = """\
DELETE FROM messages WHERE the_daemon = 0 AND agent = ANY (gone);
DELETE FROM messages AS old WHERE old.sender = ANY (gone) AND NOT EXISTS (
	SELECT FROM agents AS new WHERE new.agent = old.agent);"""
"""Messages to an agent stay when a daemon of several lets it go: their senders, wherever they are, have them
as dead letters (G32). Of those whose sender goes as well nothing stays.
"""

_OF_REMOVED = (*(table for table in KEPT_OF_AGENTS if table != "messages"), "leases")

_REMOVED = (
    *(f"DELETE FROM {table} WHERE agent = ANY (gone);" for table in _OF_REMOVED),
    *_STRAYS.splitlines(),
)


def _insert(table: str, where: str = "") -> str:
    names = ", ".join(f'"{name}"' for name in SHAPES[table].names)
    return f"INSERT INTO {table} ({names}) SELECT {names} FROM unnest(the_{table}){where}"


def _replacing(table: str) -> str:
    key, values = _key(table), SHAPES[table].names
    replaced = ", ".join(f'"{name}" = excluded."{name}"' for name in values if name not in key)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {replaced}"


def _key(table: str) -> Sequence[str]:
    shape = SHAPES[table]
    return shape.names[: shape.key]


def _update(table: str, slot: str, what: str, *names: str) -> str:
    given = f"unnest(the_{slot}) AS new WHERE {_same('agent', *names)}"
    return f"UPDATE {table} AS old SET {what} FROM {given};"


def _delete(table: str, slot: str, *names: str) -> str:
    given = f"unnest(the_{slot}) AS new WHERE {_same('agent', *names)}"
    return f"DELETE FROM {table} AS old USING {given};"


def _same(*names: str) -> str:
    pairs = (name.partition("=") for name in names)
    return " AND ".join(f"old.{name} = new.{other or name}" for name, _, other in pairs)


# --- PostgreSQL's, written down ---------------------------------------------------------------------------


def postgres_text() -> str:
    """The text of `postgres.sql`."""
    from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2

    dialect = PGDialect_psycopg2(paramstyle="format")  # type: ignore[no-untyped-call]
    name = record_name()
    usual = statements(dialect)
    known = {
        **usual,
        "messages of several": usual["messages"].replace("agent = %s", "agent = ANY (%s)"),
        "leases": LEASES,
        "record": _text(name),
        "name of record": name,
    }
    return written(known, "narval.store.postgresql.functions")


if __name__ == "__main__":
    POSTGRES.write_text(postgres_text())

"""Parts of a server besides the tables: leases, types of rows, and the function `record` (G45 to G50).

The function has an argument for each slot, an array of rows of a type of its own, and applies the slot's
effects to all of them at once. Its name has the version of the tables and a digest of its text, so that
daemons of two versions each find their own.

The statements on leases are about who holds which agent. The cost of a heartbeat does not grow with the
number of agents: it reads rows of daemons, and only those of agents that no daemon holds (up to a limit),
that another daemon gave, or for which a message waits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from narval.store.slots import WRITTEN, Each, Effect, Insert, Slot
from narval.store.statements import altered, inserted, statements
from narval.store.tables import HEAD, MESSAGES, OF_AGENTS, POSTGRESQL, Columns, quoted

FENCED = "NV001"
"""The error code for a commit whose agent is not at the epoch and turn that the commit names."""

OF_SERVERS: Mapping[str, str] = {
    "messages of several": statements(POSTGRESQL)["messages"].replace("agent = %s", "agent = ANY (%s)"),
}
"""The queries for servers only."""

LEASES = """\
CREATE TABLE daemons (
	daemon BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	home TEXT NOT NULL UNIQUE,
	address TEXT NOT NULL,
	version TEXT NOT NULL,
	digest TEXT NOT NULL,
	started TIMESTAMPTZ NOT NULL,
	until TIMESTAMPTZ NOT NULL,
	draining BOOLEAN NOT NULL DEFAULT false,
	held BIGINT NOT NULL DEFAULT 0,
	weight BIGINT NOT NULL DEFAULT 10
);

CREATE TABLE leases (
	agent BIGINT PRIMARY KEY,
	home TEXT NOT NULL DEFAULT '',
	owner BIGINT,
	epoch BIGINT NOT NULL DEFAULT 0,
	turn BIGINT NOT NULL DEFAULT 0,
	given BOOLEAN NOT NULL DEFAULT false
) WITH (fillfactor = 50);

CREATE INDEX leases_by_owner_and_home ON leases (owner, home);

CREATE INDEX leases_given ON leases (owner) WHERE given;

CREATE TABLE collections (
	name TEXT PRIMARY KEY,
	digest TEXT NOT NULL,
	files BYTEA NOT NULL,
	published TIMESTAMPTZ NOT NULL,
	by TEXT NOT NULL
);

INSERT INTO leases (agent) SELECT agent FROM agents"""

COUNTS = """\
ALTER TABLE daemons ADD COLUMN IF NOT EXISTS held BIGINT NOT NULL DEFAULT 0;

ALTER TABLE daemons ADD COLUMN IF NOT EXISTS weight BIGINT NOT NULL DEFAULT 10;

ALTER TABLE leases ADD COLUMN IF NOT EXISTS given BOOLEAN NOT NULL DEFAULT false;

CREATE INDEX IF NOT EXISTS leases_by_owner_and_home ON leases (owner, home);

CREATE INDEX IF NOT EXISTS leases_given ON leases (owner) WHERE given;

DROP INDEX IF EXISTS leases_by_owner"""
"""The change that migrates older tables of leases: daemons have the number of agents they hold and their
weight; agents have a mark if another daemon gave them to their holder.
"""


FENCE: Columns = {"agent": int, "epoch": int, "turn": int}
"""The columns of the marks of a call's agents, which precede its slots."""

TOLD: Mapping[str, Columns] = {"fence": FENCE, **{slot.name: slot.columns for slot in WRITTEN}}
"""The columns of all arguments of a call, in the order in which `record` takes them."""


class Function(NamedTuple):
    """The function `record`: its name, and the statements that make it and its types."""

    name: str
    text: str


@cache
def record() -> Function:
    """The function of this version."""
    name = f"record_{HEAD:04}_{hashlib.sha256(_text('record').encode()).hexdigest()[:8]}"
    return Function(name, _text(name))


def _text(name: str) -> str:
    return ";\n\n".join((*_types(name), _function(name)))


def _types(name: str) -> Iterator[str]:
    for slot, columns in TOLD.items():
        typed = (f'"{column}" {POSTGRESQL.type_of(kind)}' for column, kind in columns.items())
        yield f"CREATE TYPE {name}_{slot} AS ({', '.join(typed)})"


def _function(name: str) -> str:
    arguments = ",\n\t".join(("the_daemon bigint", *(f"the_{slot} {name}_{slot}[]" for slot in TOLD)))
    body = "\n".join(
        (*_if("fence", _FENCE), *(line for slot in WRITTEN for line in _if(slot.name, _done(slot))))
    )
    return (
        f"CREATE FUNCTION {name}(\n\t{arguments}\n) RETURNS bigint[] LANGUAGE plpgsql AS $record$\n"
        f"#variable_conflict use_column\nDECLARE\n{_VARIABLES}BEGIN\n{body}\nRETURN made;\nEND\n$record$"
    )


_VARIABLES = "\theld bigint;\n\tlost text;\n\tmade bigint[];\n\tgone bigint[];\n\tone record;\n"


def _if(slot: str, statements: str) -> tuple[str, ...]:
    """The statements of a slot, skipped if it is empty."""
    return f"IF the_{slot} IS NOT NULL THEN", statements, "END IF;"


def _done(slot: Slot) -> str:
    """The effects of a slot, with those on leases when agents are added or removed."""
    if slot.name == "removed_agents":
        return _REMOVING
    effects = "\n".join(f"{_for_all_rows(effect, slot.name)};" for effect in slot.effects)
    return f"{_BEFORE.get(slot.name, '')}{effects}"


def _for_all_rows(effect: Effect, slot: str) -> str:
    rows = f"unnest(the_{slot}) AS new"
    if isinstance(effect, Insert):
        names = quoted(effect.table.columns)
        return inserted(effect, f"SELECT {names} FROM {rows}{_ONLY.get(slot, '')}")
    if isinstance(effect, Each):
        statement = effect.statement.replace("new.", "one.")
        return f"FOR one IN SELECT * FROM {rows} LOOP\n{statement};\nEND LOOP"
    return altered(effect, rows)


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
END IF;
"""

_BEFORE = {
    "agents": _MAKING,
    "texts": "PERFORM pg_advisory_xact_lock_shared(hashtext('narval'), hashtext(current_schema()));\n",
}
"""The statements before the effects of a slot."""

_ONLY = {
    "agents": " WHERE the_daemon = 0 OR EXISTS ("
    "SELECT FROM leases AS old WHERE old.agent = new.agent AND old.owner = the_daemon)"
}
"""The condition on the rows of a slot: a daemon registers only the agents that it holds."""

_GONE = "\n".join(
    f"DELETE FROM {name} WHERE agent = ANY (gone);"
    for name in (*(table.name for table in OF_AGENTS if table is not MESSAGES), "leases")
)

_REMOVING = f"""\
SELECT array_agg(new.agent) INTO gone FROM unnest(the_removed_agents) AS new WHERE the_daemon = 0 OR EXISTS (
	SELECT FROM leases AS old WHERE old.agent = new.agent AND old.owner = the_daemon);
{_GONE}
DELETE FROM messages WHERE the_daemon = 0 AND agent = ANY (gone);
DELETE FROM messages AS old WHERE old.sender = ANY (gone) AND NOT EXISTS (
	SELECT FROM agents AS new WHERE new.agent = old.agent);"""
"""The removal of agents. Messages to a removed agent stay in a shared store: their senders, wherever they
are, get them as dead letters. Those whose sender is removed too are dropped.
"""


ONE_JOINS = "SELECT pg_advisory_xact_lock(hashtext('narval join'), hashtext(current_schema()))"

JOIN = """
INSERT INTO daemons (home, address, version, digest, weight, started, until, held)
    VALUES (%s, %s, %s, %s, %s, clock_timestamp(), clock_timestamp() + make_interval(secs => %s), 1)
    ON CONFLICT DO NOTHING RETURNING daemon"""

PINNED = """
SELECT a.agent, a.id, a.name, a.state, a.why, a.wake_at, l.home
    FROM agents a JOIN leases l ON l.agent = a.agent WHERE {}"""

NEXT_NUMBER = """
SELECT 1 + greatest(
    (SELECT max(agent) FROM leases), (SELECT max(agent) FROM messages), (SELECT max(sender) FROM messages),
    (SELECT max(agent) FROM taken), (SELECT max(sender) FROM taken))"""
"""A number that no agent has, and that no message refers to."""

RENEW = """
UPDATE daemons SET until = clock_timestamp() + make_interval(secs => %s), draining = %s, held = %s
    WHERE daemon = %s RETURNING extract(epoch FROM until)::float8, home"""

HAND_OVER = """
UPDATE leases l SET owner = d.daemon, epoch = l.epoch + 1, given = true FROM daemons d
    WHERE l.agent = ANY(%(agents)s) AND l.owner = %(me)s
        AND d.daemon = %(to)s AND d.until > clock_timestamp() AND NOT d.draining"""

DAEMONS = """
SELECT d.daemon, d.home, d.address, d.version, d.digest, extract(epoch FROM d.started)::float8,
    extract(epoch FROM d.until)::float8, d.draining, d.held, d.weight
    FROM daemons d WHERE {} ORDER BY d.daemon"""

MAIL = """
SELECT m.agent FROM (SELECT DISTINCT agent FROM messages) m
    WHERE (SELECT l.owner FROM leases l WHERE l.agent = m.agent) = %s"""
"""The agents of a daemon with waiting messages; reads only these, however many agents it has."""

COUNT_GIVEN = "SELECT count(*) FROM leases WHERE owner = %s AND given"

GONE = """
WITH RECURSIVE owners (owner) AS (
    SELECT min(owner) FROM leases UNION ALL
    SELECT (SELECT min(l.owner) FROM leases l WHERE l.owner > o.owner) FROM owners o
        WHERE o.owner IS NOT NULL),
gone (owner) AS (
    SELECT o.owner FROM owners o WHERE o.owner <> %(me)s AND NOT EXISTS (
        SELECT FROM daemons d WHERE d.daemon = o.owner AND {}))"""
"""The owners that are no longer daemons. Each owner is looked up in the index once, however many agents it
has; nothing else is read of those that are daemons.
"""

FREE = "".join(
    (
        GONE.format("d.until > clock_timestamp()"),
        """
SELECT count(*) FROM (
    SELECT FROM leases l WHERE l.owner IS NULL AND l.home = '' UNION ALL
    SELECT FROM leases l WHERE l.owner IS NULL AND l.home = %(home)s UNION ALL
    SELECT FROM gone g, LATERAL (SELECT FROM leases l WHERE l.owner = g.owner AND l.home = '' OFFSET 0) one
    UNION ALL
    SELECT FROM gone g, LATERAL (
        SELECT FROM leases l WHERE l.owner = g.owner AND l.home = %(home)s OFFSET 0) one
    LIMIT %(most)s) free""",
    )
)
"""The number of agents that no daemon holds, up to the most that are counted."""

LOST_HOMES = "".join(
    (
        GONE.format("d.until > clock_timestamp()"),
        """
SELECT DISTINCT one.home FROM gone g, LATERAL (
    SELECT l.home FROM leases l WHERE l.owner = g.owner AND l.home > '' OFFSET 0) one ORDER BY one.home""",
    )
)
"""The homes whose agents were never given back by a daemon that is gone. Only agents pinned to a home are
read.
"""

CANDIDATES = "".join(
    (
        GONE.format("true"),
        """,
known (agent) AS (
    SELECT l.agent FROM leases l WHERE l.owner IS NULL AND l.home IN ('', %(home)s) UNION ALL
    SELECT of_gone.agent FROM gone g, LATERAL (
        SELECT l.agent FROM leases l WHERE l.owner = g.owner AND l.home IN ('', %(home)s) OFFSET 0) of_gone)
SELECT a.agent FROM known k JOIN agents a ON a.agent = k.agent
    ORDER BY (a.state <> 'suspended' AND (a.state = 'active'
        OR a.wake_at < extract(epoch FROM clock_timestamp())
        OR EXISTS (SELECT FROM messages m WHERE m.agent = a.agent))) IS NOT TRUE, a.agent
    LIMIT %(most)s""",
    )
)
"""The agents that no daemon holds, those with work first."""

GIVEN = "SELECT agent FROM leases WHERE owner = %s AND given ORDER BY agent LIMIT %s"
"""The agents that other daemons gave."""

UNKNOWN = """
SELECT agent FROM leases WHERE owner = %s AND agent <> ALL(%s) ORDER BY agent LIMIT %s"""
"""The agents that a daemon holds without knowing it; the ones it knows are passed."""

TAKE = """
WITH taken AS (
    UPDATE leases SET owner = %(me)s, epoch = epoch + 1, given = false WHERE ctid = ANY(ARRAY(
        SELECT free.place FROM unnest(%(agents)s::bigint[]) asked (agent), LATERAL (
            SELECT l.ctid AS place FROM leases l
                WHERE l.agent = asked.agent AND l.home IN ('', %(home)s, %(peer)s) AND (
                    l.owner IS NULL OR l.owner = %(me)s
                    OR NOT EXISTS (SELECT FROM daemons d WHERE d.daemon = l.owner))
                FOR UPDATE OF l SKIP LOCKED) free))
        RETURNING agent, epoch, turn, home)
SELECT a.agent, a.id, a.name, a.state, a.why, a.wake_at, t.epoch, t.turn, t.home <> ''
    FROM taken t, LATERAL (SELECT * FROM agents WHERE agents.agent = t.agent OFFSET 0) a
    ORDER BY array_position(%(agents)s::bigint[], t.agent)"""
"""Take those of the named agents that no other daemon holds by now; each is looked up by its number alone."""

OWNERS = """
SELECT l.agent, coalesce(d.home, ''), l.epoch, l.home
    FROM leases l LEFT JOIN daemons d ON d.daemon = l.owner AND d.until > clock_timestamp()
    ORDER BY l.agent"""

FIND = """
SELECT a.agent, a.id, a.name, a.state, a.why, a.wake_at, l.owner
    FROM agents a LEFT JOIN leases l ON l.agent = a.agent WHERE a.name = %s"""

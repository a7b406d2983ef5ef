"""Statements on who holds which agent, for the leases of a daemon on PostgreSQL (G46 to G50).

The cost of a heartbeat does not grow with the number of agents. It reads rows of daemons, and only those of
agents that no daemon holds (up to a limit), that another daemon gave, or for which a message waits.
"""

from __future__ import annotations

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

-- Written by `python -m narval.store.postgresql.functions`, from the tables and statements of that module.

-- name: schema
CREATE TABLE agents (
	agent BIGINT NOT NULL,
	id TEXT NOT NULL,
	name TEXT NOT NULL,
	state TEXT NOT NULL,
	why TEXT NOT NULL,
	wake_at DOUBLE PRECISION,
	PRIMARY KEY (agent)
);

CREATE UNIQUE INDEX agents_by_name ON agents (name);

CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE contexts (
	agent BIGINT NOT NULL,
	run BIGINT NOT NULL,
	eid BIGINT NOT NULL,
	PRIMARY KEY (agent, run, eid)
);

CREATE TABLE dead_letters (
	line BIGSERIAL NOT NULL,
	agent BIGINT NOT NULL,
	receiver TEXT NOT NULL,
	number BIGINT NOT NULL,
	id TEXT NOT NULL,
	kind TEXT NOT NULL,
	reason TEXT NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	until DOUBLE PRECISION,
	origin BYTEA NOT NULL,
	data BYTEA NOT NULL,
	PRIMARY KEY (line)
);

CREATE INDEX dead_letters_by_agent ON dead_letters (agent);

CREATE TABLE definitions (
	agent BIGINT NOT NULL,
	digest TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	path TEXT NOT NULL,
	text BYTEA NOT NULL,
	loaded DOUBLE PRECISION NOT NULL,
	current BOOLEAN NOT NULL,
	PRIMARY KEY (agent, digest, kind, name)
);

CREATE TABLE elements (
	line BIGSERIAL NOT NULL,
	agent BIGINT NOT NULL,
	eid BIGINT NOT NULL,
	name TEXT NOT NULL,
	xml BYTEA NOT NULL,
	added DOUBLE PRECISION NOT NULL,
	origin BYTEA,
	declared TEXT NOT NULL,
	outdated BOOLEAN NOT NULL,
	held_by BIGINT,
	text BYTEA,
	PRIMARY KEY (line)
);

CREATE UNIQUE INDEX elements_by_eid ON elements (agent, eid);

CREATE INDEX elements_by_text ON elements (text) WHERE text IS NOT NULL;

CREATE TABLE journal (
	line BIGSERIAL NOT NULL,
	agent BIGINT NOT NULL,
	run BIGINT NOT NULL,
	seq BIGINT NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	data BYTEA NOT NULL,
	PRIMARY KEY (line)
);

CREATE INDEX journal_by_run ON journal (agent, run);

CREATE TABLE keys (
	agent BIGINT NOT NULL,
	name TEXT NOT NULL,
	expression TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (agent, name, expression, value)
);

CREATE TABLE marks (
	agent BIGINT NOT NULL,
	definition TEXT NOT NULL,
	place TEXT NOT NULL,
	slot TEXT NOT NULL,
	eid BIGINT NOT NULL,
	run BIGINT NOT NULL,
	PRIMARY KEY (agent, eid, definition, place, slot)
);

CREATE TABLE messages (
	agent BIGINT NOT NULL,
	sender BIGINT NOT NULL,
	number BIGINT NOT NULL,
	id TEXT NOT NULL,
	kind TEXT NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	until DOUBLE PRECISION,
	origin BYTEA NOT NULL,
	data BYTEA NOT NULL,
	PRIMARY KEY (agent, sender, number)
);

CREATE TABLE meta (
	agent BIGINT NOT NULL,
	key TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (agent, key)
);

CREATE TABLE moments (
	agent BIGINT NOT NULL,
	id TEXT NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	data BYTEA NOT NULL,
	PRIMARY KEY (agent, id)
);

CREATE TABLE queue (
	agent BIGINT NOT NULL,
	id BIGINT NOT NULL,
	run BIGINT NOT NULL,
	data BYTEA NOT NULL,
	PRIMARY KEY (agent, id)
);

CREATE TABLE runs (
	agent BIGINT NOT NULL,
	eid BIGINT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	digest TEXT NOT NULL,
	state TEXT NOT NULL,
	phase TEXT NOT NULL,
	started DOUBLE PRECISION NOT NULL,
	ended DOUBLE PRECISION,
	parent_run BIGINT,
	parent_step TEXT NOT NULL,
	parent_call TEXT NOT NULL,
	attempt BIGINT NOT NULL,
	error BIGINT,
	by TEXT NOT NULL,
	actor TEXT NOT NULL,
	PRIMARY KEY (agent, eid)
);

CREATE TABLE snapshots (
	agent BIGINT NOT NULL,
	run BIGINT NOT NULL,
	seq BIGINT NOT NULL,
	data BYTEA NOT NULL,
	PRIMARY KEY (agent, run)
);

CREATE TABLE taken (
	agent BIGINT NOT NULL,
	sender BIGINT NOT NULL,
	number BIGINT NOT NULL,
	PRIMARY KEY (agent, sender)
);

CREATE TABLE texts (
	digest BYTEA NOT NULL,
	data BYTEA NOT NULL,
	PRIMARY KEY (digest)
);

-- name: put agent
INSERT INTO agents (agent, id, name, state, why, wake_at) VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (agent) DO UPDATE SET id = excluded.id, name = excluded.name, state = excluded.state, why = excluded.why, wake_at = excluded.wake_at;

-- name: supersede definition
UPDATE definitions SET current=false WHERE definitions.agent = %s AND definitions.kind = %s AND definitions.name = %s AND definitions.digest != %s;

-- name: add text
INSERT INTO texts (digest, data) VALUES (%s, %s) ON CONFLICT DO NOTHING;

-- name: put definition
INSERT INTO definitions (agent, digest, kind, name, path, text, loaded, current) VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (agent, digest, kind, name) DO UPDATE SET path = excluded.path, text = excluded.text, loaded = excluded.loaded, current = excluded.current;

-- name: retire definition
UPDATE definitions SET current=false WHERE definitions.agent = %s AND definitions.digest = %s AND definitions.kind = %s AND definitions.name = %s;

-- name: share element
INSERT INTO elements (agent, eid, name, xml, added, origin, declared, outdated, held_by, text) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: add element
INSERT INTO elements (agent, eid, name, xml, added, origin, declared, outdated, held_by) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: outdate element
UPDATE elements SET outdated=true WHERE elements.agent = %s AND elements.eid = %s;

-- name: undeclare element
UPDATE elements SET declared='' WHERE elements.agent = %s AND elements.eid = %s;

-- name: hold
INSERT INTO contexts (agent, run, eid) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING;

-- name: mark
INSERT INTO marks (agent, definition, place, slot, eid, run) VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING;

-- name: add key
INSERT INTO keys (agent, name, expression, value) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING;

-- name: put run
INSERT INTO runs (agent, eid, kind, name, digest, state, phase, started, ended, parent_run, parent_step, parent_call, attempt, error, by, actor) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (agent, eid) DO UPDATE SET kind = excluded.kind, name = excluded.name, digest = excluded.digest, state = excluded.state, phase = excluded.phase, started = excluded.started, ended = excluded.ended, parent_run = excluded.parent_run, parent_step = excluded.parent_step, parent_call = excluded.parent_call, attempt = excluded.attempt, error = excluded.error, by = excluded.by, actor = excluded.actor;

-- name: add entry
INSERT INTO journal (agent, run, seq, at, data) VALUES (%s, %s, %s, %s, %s);

-- name: put snapshot
INSERT INTO snapshots (agent, run, seq, data) VALUES (%s, %s, %s, %s) ON CONFLICT (agent, run) DO UPDATE SET seq = excluded.seq, data = excluded.data;

-- name: put event
INSERT INTO queue (agent, id, run, data) VALUES (%s, %s, %s, %s) ON CONFLICT (agent, id) DO UPDATE SET run = excluded.run, data = excluded.data;

-- name: put moment
INSERT INTO moments (agent, id, at, data) VALUES (%s, %s, %s, %s) ON CONFLICT (agent, id) DO UPDATE SET at = excluded.at, data = excluded.data;

-- name: put meta
INSERT INTO meta (agent, key, value) VALUES (%s, %s, %s) ON CONFLICT (agent, key) DO UPDATE SET value = excluded.value;

-- name: add message
INSERT INTO messages (agent, sender, number, id, kind, at, until, origin, data) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: put taken
INSERT INTO taken (agent, sender, number) VALUES (%s, %s, %s) ON CONFLICT (agent, sender) DO UPDATE SET number = excluded.number;

-- name: add dead letter
INSERT INTO dead_letters (agent, receiver, number, id, kind, reason, at, until, origin, data) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s);

-- name: trim journal
DELETE FROM journal WHERE journal.line IN (SELECT journal.line
FROM journal
WHERE journal.agent = %s AND journal.run = %s AND journal.seq <= %s AND journal.line <= (SELECT journal.line
FROM journal
WHERE journal.agent = %s AND journal.run = %s ORDER BY journal.line DESC
 LIMIT 1 OFFSET %s) ORDER BY journal.line
 LIMIT 5000 OFFSET 0);

-- name: drop event
DELETE FROM queue WHERE queue.agent = %s AND queue.id = %s;

-- name: drop moment
DELETE FROM moments WHERE moments.agent = %s AND moments.id = %s;

-- name: drop messages
DELETE FROM messages WHERE messages.agent = %s AND messages.sender = %s AND messages.number <= %s;

-- name: drop dead letter
DELETE FROM dead_letters WHERE dead_letters.agent = %s AND dead_letters.line = %s;

-- name: drop old dead letters
DELETE FROM dead_letters WHERE dead_letters.agent = %s AND dead_letters.at < %s;

-- name: unhold by its maker
UPDATE elements SET held_by=NULL WHERE elements.agent = %s AND elements.held_by = %s AND elements.eid = %s;

-- name: unhold
DELETE FROM contexts WHERE contexts.agent = %s AND contexts.run = %s AND contexts.eid = %s;

-- name: drop element
DELETE FROM elements WHERE elements.agent = %s AND elements.eid = %s;

-- name: drop marks
DELETE FROM marks WHERE marks.agent = %s AND marks.eid = %s;

-- name: drop run
DELETE FROM runs WHERE runs.agent = %s AND runs.eid = %s;

-- name: drop context
DELETE FROM contexts WHERE contexts.agent = %s AND contexts.run = %s;

-- name: drop entries
DELETE FROM journal WHERE journal.agent = %s AND journal.run = %s;

-- name: drop snapshot
DELETE FROM snapshots WHERE snapshots.agent = %s AND snapshots.run = %s;

-- name: remove meta
DELETE FROM meta WHERE meta.agent = %s;

-- name: remove elements
DELETE FROM elements WHERE elements.agent = %s;

-- name: remove contexts
DELETE FROM contexts WHERE contexts.agent = %s;

-- name: remove marks
DELETE FROM marks WHERE marks.agent = %s;

-- name: remove keys
DELETE FROM keys WHERE keys.agent = %s;

-- name: remove runs
DELETE FROM runs WHERE runs.agent = %s;

-- name: remove journal
DELETE FROM journal WHERE journal.agent = %s;

-- name: remove snapshots
DELETE FROM snapshots WHERE snapshots.agent = %s;

-- name: remove queue
DELETE FROM queue WHERE queue.agent = %s;

-- name: remove moments
DELETE FROM moments WHERE moments.agent = %s;

-- name: remove definitions
DELETE FROM definitions WHERE definitions.agent = %s;

-- name: remove messages
DELETE FROM messages WHERE messages.agent = %s;

-- name: remove taken
DELETE FROM taken WHERE taken.agent = %s;

-- name: remove dead_letters
DELETE FROM dead_letters WHERE dead_letters.agent = %s;

-- name: remove agents
DELETE FROM agents WHERE agents.agent = %s;

-- name: agent
SELECT agents.agent, agents.id, agents.name, agents.state, agents.why, agents.wake_at
FROM agents
WHERE agents.agent = %s;

-- name: agents
SELECT agents.agent, agents.id, agents.name, agents.state, agents.why, agents.wake_at
FROM agents ORDER BY agents.agent;

-- name: held by agents
SELECT elements.agent, count(*) AS count_1, 0
FROM elements GROUP BY elements.agent UNION ALL SELECT runs.agent, count(*) AS count_2, count(*) FILTER (WHERE runs.phase = 'active') AS anon_1
FROM runs GROUP BY runs.agent;

-- name: elements
SELECT elements.eid, elements.name, coalesce(texts.data, elements.xml) AS coalesce_1, elements.added, elements.origin, elements.declared, elements.outdated, elements.held_by
FROM elements LEFT OUTER JOIN texts ON texts.digest = elements.text
WHERE elements.agent = %s ORDER BY elements.eid;

-- name: element
SELECT elements.eid, elements.name, coalesce(texts.data, elements.xml) AS coalesce_1, elements.added, elements.origin, elements.declared, elements.outdated, elements.held_by
FROM elements LEFT OUTER JOIN texts ON texts.digest = elements.text
WHERE elements.agent = %s AND elements.eid = %s;

-- name: elements of files
SELECT elements.eid, elements.name, coalesce(texts.data, elements.xml) AS coalesce_1, elements.added, elements.origin, elements.declared, elements.outdated, elements.held_by
FROM elements LEFT OUTER JOIN texts ON texts.digest = elements.text
WHERE elements.agent = %s AND (elements.declared != '' OR elements.name = 'start-plan' OR elements.name = '{http://www.logilab.org/namespaces/Narval/1.2}start-plan' OR elements.name = '{http://www.logilab.org/namespaces/Narval/1.2}task-object') ORDER BY elements.eid;

-- name: last eids
SELECT max(elements.eid) AS max_1
FROM elements
WHERE elements.agent = %s UNION ALL SELECT max(runs.eid) AS max_2
FROM runs
WHERE runs.agent = %s;

-- name: marks of element
SELECT marks.definition, marks.place, marks.slot, marks.eid, marks.run
FROM marks
WHERE marks.agent = %s AND marks.eid = %s ORDER BY marks.definition, marks.place, marks.slot;

-- name: contexts
SELECT elements.held_by AS run, elements.eid
FROM elements
WHERE elements.agent = %s AND (EXISTS (SELECT runs.eid
FROM runs
WHERE runs.agent = elements.agent AND runs.eid = elements.held_by)) UNION ALL SELECT contexts.run, contexts.eid
FROM contexts
WHERE contexts.agent = %s AND (EXISTS (SELECT runs.eid
FROM runs
WHERE runs.agent = contexts.agent AND runs.eid = contexts.run)) AND ((EXISTS (SELECT elements.eid
FROM elements
WHERE elements.agent = contexts.agent AND elements.eid = contexts.eid)) OR (EXISTS (SELECT runs.eid
FROM runs
WHERE runs.agent = contexts.agent AND runs.eid = contexts.eid))) ORDER BY run, eid;

-- name: marks
SELECT marks.definition, marks.place, marks.slot, marks.eid, marks.run
FROM marks
WHERE marks.agent = %s ORDER BY marks.eid, marks.definition, marks.place, marks.slot;

-- name: keys
SELECT keys.name, keys.expression, keys.value
FROM keys
WHERE keys.agent = %s ORDER BY keys.name, keys.expression, keys.value;

-- name: events
SELECT queue.id, queue.run, queue.data
FROM queue
WHERE queue.agent = %s ORDER BY queue.id;

-- name: moments
SELECT moments.id, moments.at, moments.data
FROM moments
WHERE moments.agent = %s ORDER BY moments.at, moments.id;

-- name: meta
SELECT meta.key, meta.value
FROM meta
WHERE meta.agent = %s ORDER BY meta.key;

-- name: runs
SELECT runs.eid, runs.kind, runs.name, runs.digest, runs.state, runs.phase, runs.started, runs.ended, runs.parent_run, runs.parent_step, runs.parent_call, runs.attempt, runs.error, runs.by, runs.actor
FROM runs
WHERE runs.agent = %s ORDER BY runs.eid;

-- name: runs before
SELECT runs.eid, runs.kind, runs.name, runs.digest, runs.state, runs.phase, runs.started, runs.ended, runs.parent_run, runs.parent_step, runs.parent_call, runs.attempt, runs.error, runs.by, runs.actor
FROM runs
WHERE runs.agent = %s AND runs.eid < %s ORDER BY runs.eid DESC;

-- name: entries of run
SELECT journal.run, journal.seq, journal.at, journal.data
FROM journal
WHERE journal.agent = %s AND journal.run = %s AND journal.seq > %s ORDER BY journal.line
 LIMIT %s OFFSET 0;

-- name: entries before
SELECT journal.run, journal.seq, journal.at, journal.data
FROM journal
WHERE journal.agent = %s AND journal.run = %s AND journal.seq < %s ORDER BY journal.line DESC
 LIMIT %s OFFSET 0;

-- name: snapshot
SELECT snapshots.run, snapshots.seq, snapshots.data
FROM snapshots
WHERE snapshots.agent = %s AND snapshots.run = %s;

-- name: entries under way
SELECT journal.run, journal.seq, journal.at, journal.data
FROM journal
WHERE journal.agent = %s AND journal.run IN (SELECT runs.eid
FROM runs
WHERE runs.agent = %s AND runs.phase = 'active' AND runs.eid BETWEEN %s AND %s) AND journal.seq > coalesce((SELECT snapshots.seq
FROM snapshots
WHERE snapshots.agent = journal.agent AND snapshots.run = journal.run), 0);

-- name: snapshots under way
SELECT snapshots.run, snapshots.seq, snapshots.data
FROM snapshots
WHERE snapshots.agent = %s AND snapshots.run IN (SELECT runs.eid
FROM runs
WHERE runs.agent = %s AND runs.phase = 'active' AND runs.eid BETWEEN %s AND %s);

-- name: definitions
SELECT definitions.digest, definitions.kind, definitions.name, definitions.path, texts.data, definitions.loaded, definitions.current
FROM definitions LEFT OUTER JOIN texts ON texts.digest = definitions.text
WHERE definitions.agent = %s AND definitions.current = coalesce(%s, definitions.current) AND definitions.name = coalesce(%s, definitions.name) ORDER BY definitions.loaded, definitions.kind, definitions.name;

-- name: definition
SELECT definitions.digest, definitions.kind, definitions.name, definitions.path, texts.data, definitions.loaded, definitions.current
FROM definitions LEFT OUTER JOIN texts ON texts.digest = definitions.text
WHERE definitions.agent = %s AND definitions.digest = %s;

-- name: current versions
SELECT definitions.kind, definitions.name, definitions.digest
FROM definitions
WHERE definitions.agent = %s AND definitions.current;

-- name: waiting messages
SELECT messages.agent, messages.sender, count(*) AS count_1, sum(length(messages.data)) AS sum_1, min(messages.until) AS min_1, max(messages.number) AS max_1
FROM messages GROUP BY messages.agent, messages.sender ORDER BY messages.agent, messages.sender;

-- name: messages
SELECT messages.agent, messages.sender, messages.number, messages.id, messages.kind, messages.at, messages.until, messages.origin, messages.data
FROM messages
WHERE messages.agent = %s ORDER BY messages.sender, messages.number;

-- name: taken
SELECT taken.agent, taken.sender, taken.number
FROM taken
WHERE taken.agent = %s ORDER BY taken.sender;

-- name: messages of sender
SELECT messages.agent, messages.sender, messages.number, messages.id, messages.kind, messages.at, messages.until, messages.origin, messages.data
FROM messages
WHERE messages.sender = %s ORDER BY messages.agent, messages.number;

-- name: stray messages
SELECT messages.agent, messages.sender, messages.number, messages.id, messages.kind, messages.at, messages.until, messages.origin, messages.data
FROM messages
WHERE NOT (EXISTS (SELECT *
FROM agents
WHERE agents.agent = messages.agent)) ORDER BY messages.sender, messages.number;

-- name: ids of pair
SELECT messages.id
FROM messages
WHERE messages.agent = %s AND messages.sender = %s;

-- name: last sent
SELECT max(messages.number) AS max_1
FROM messages
WHERE messages.agent = %s AND messages.sender = %s UNION ALL SELECT max(taken.number) AS max_2
FROM taken
WHERE taken.agent = %s AND taken.sender = %s;

-- name: last correspondents
SELECT max(messages.agent) AS max_1
FROM messages UNION ALL SELECT max(messages.sender) AS max_2
FROM messages UNION ALL SELECT max(taken.agent) AS max_3
FROM taken UNION ALL SELECT max(taken.sender) AS max_4
FROM taken;

-- name: dead letters
SELECT dead_letters.line, dead_letters.agent, dead_letters.receiver, dead_letters.number, dead_letters.id, dead_letters.kind, dead_letters.reason, dead_letters.at, dead_letters.until, dead_letters.origin, dead_letters.data
FROM dead_letters
WHERE dead_letters.agent = %s ORDER BY dead_letters.line;

-- name: version
SELECT alembic_version.version_num
FROM alembic_version;

-- name: stamp
INSERT INTO alembic_version (version_num) VALUES (%s);

-- name: drop definitions
DELETE FROM definitions WHERE definitions.current IS false AND ((definitions.agent, definitions.digest) NOT IN (SELECT runs.agent, runs.digest
FROM runs));

-- name: drop texts
DELETE FROM texts WHERE (texts.digest NOT IN (SELECT definitions.text
FROM definitions)) AND NOT (EXISTS (SELECT elements.line
FROM elements
WHERE elements.text = texts.digest));

-- name: messages of several
SELECT messages.agent, messages.sender, messages.number, messages.id, messages.kind, messages.at, messages.until, messages.origin, messages.data
FROM messages
WHERE messages.agent = ANY (%s) ORDER BY messages.sender, messages.number;

-- name: leases
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

INSERT INTO leases (agent) SELECT agent FROM agents;

-- name: record
CREATE TYPE record_0004_00a3e8a3_fence AS ("agent" bigint, "epoch" bigint, "turn" bigint);

CREATE TYPE record_0004_00a3e8a3_agents AS ("agent" bigint, "id" text, "name" text, "state" text, "why" text, "wake_at" double precision);

CREATE TYPE record_0004_00a3e8a3_texts AS ("digest" bytea, "data" bytea);

CREATE TYPE record_0004_00a3e8a3_definitions AS ("agent" bigint, "digest" text, "kind" text, "name" text, "path" text, "text" bytea, "loaded" double precision, "current" boolean);

CREATE TYPE record_0004_00a3e8a3_retired AS ("agent" bigint, "digest" text, "kind" text, "name" text);

CREATE TYPE record_0004_00a3e8a3_elements AS ("agent" bigint, "eid" bigint, "name" text, "xml" bytea, "added" double precision, "origin" bytea, "declared" text, "outdated" boolean, "held_by" bigint, "text" bytea);

CREATE TYPE record_0004_00a3e8a3_outdated AS ("agent" bigint, "eid" bigint);

CREATE TYPE record_0004_00a3e8a3_undeclared AS ("agent" bigint, "eid" bigint);

CREATE TYPE record_0004_00a3e8a3_contexts AS ("agent" bigint, "run" bigint, "eid" bigint);

CREATE TYPE record_0004_00a3e8a3_marks AS ("agent" bigint, "definition" text, "place" text, "slot" text, "eid" bigint, "run" bigint);

CREATE TYPE record_0004_00a3e8a3_keys AS ("agent" bigint, "name" text, "expression" text, "value" text);

CREATE TYPE record_0004_00a3e8a3_runs AS ("agent" bigint, "eid" bigint, "kind" text, "name" text, "digest" text, "state" text, "phase" text, "started" double precision, "ended" double precision, "parent_run" bigint, "parent_step" text, "parent_call" text, "attempt" bigint, "error" bigint, "by" text, "actor" text);

CREATE TYPE record_0004_00a3e8a3_journal AS ("agent" bigint, "run" bigint, "seq" bigint, "at" double precision, "data" bytea);

CREATE TYPE record_0004_00a3e8a3_snapshots AS ("agent" bigint, "run" bigint, "seq" bigint, "data" bytea);

CREATE TYPE record_0004_00a3e8a3_queue AS ("agent" bigint, "id" bigint, "run" bigint, "data" bytea);

CREATE TYPE record_0004_00a3e8a3_moments AS ("agent" bigint, "id" text, "at" double precision, "data" bytea);

CREATE TYPE record_0004_00a3e8a3_meta AS ("agent" bigint, "key" text, "value" text);

CREATE TYPE record_0004_00a3e8a3_messages AS ("agent" bigint, "sender" bigint, "number" bigint, "id" text, "kind" text, "at" double precision, "until" double precision, "origin" bytea, "data" bytea);

CREATE TYPE record_0004_00a3e8a3_taken AS ("agent" bigint, "sender" bigint, "number" bigint);

CREATE TYPE record_0004_00a3e8a3_dead_letters AS ("agent" bigint, "receiver" text, "number" bigint, "id" text, "kind" text, "reason" text, "at" double precision, "until" double precision, "origin" bytea, "data" bytea);

CREATE TYPE record_0004_00a3e8a3_trimmed AS ("agent" bigint, "run" bigint, "seq" bigint, "keep" bigint);

CREATE TYPE record_0004_00a3e8a3_dequeued AS ("agent" bigint, "id" bigint);

CREATE TYPE record_0004_00a3e8a3_moments_done AS ("agent" bigint, "id" text);

CREATE TYPE record_0004_00a3e8a3_letters_settled AS ("agent" bigint, "line" bigint);

CREATE TYPE record_0004_00a3e8a3_unheld AS ("agent" bigint, "run" bigint, "eid" bigint);

CREATE TYPE record_0004_00a3e8a3_forgotten_elements AS ("agent" bigint, "eid" bigint);

CREATE TYPE record_0004_00a3e8a3_forgotten_runs AS ("agent" bigint, "run" bigint);

CREATE TYPE record_0004_00a3e8a3_removed_agents AS ("agent" bigint);

CREATE FUNCTION record_0004_00a3e8a3(
	the_daemon bigint,
	the_fence record_0004_00a3e8a3_fence[],
	the_agents record_0004_00a3e8a3_agents[],
	the_texts record_0004_00a3e8a3_texts[],
	the_definitions record_0004_00a3e8a3_definitions[],
	the_retired record_0004_00a3e8a3_retired[],
	the_elements record_0004_00a3e8a3_elements[],
	the_outdated record_0004_00a3e8a3_outdated[],
	the_undeclared record_0004_00a3e8a3_undeclared[],
	the_contexts record_0004_00a3e8a3_contexts[],
	the_marks record_0004_00a3e8a3_marks[],
	the_keys record_0004_00a3e8a3_keys[],
	the_runs record_0004_00a3e8a3_runs[],
	the_journal record_0004_00a3e8a3_journal[],
	the_snapshots record_0004_00a3e8a3_snapshots[],
	the_queue record_0004_00a3e8a3_queue[],
	the_moments record_0004_00a3e8a3_moments[],
	the_meta record_0004_00a3e8a3_meta[],
	the_messages record_0004_00a3e8a3_messages[],
	the_taken record_0004_00a3e8a3_taken[],
	the_dead_letters record_0004_00a3e8a3_dead_letters[],
	the_trimmed record_0004_00a3e8a3_trimmed[],
	the_dequeued record_0004_00a3e8a3_dequeued[],
	the_moments_done record_0004_00a3e8a3_moments_done[],
	the_letters_settled record_0004_00a3e8a3_letters_settled[],
	the_unheld record_0004_00a3e8a3_unheld[],
	the_forgotten_elements record_0004_00a3e8a3_forgotten_elements[],
	the_forgotten_runs record_0004_00a3e8a3_forgotten_runs[],
	the_removed_agents record_0004_00a3e8a3_removed_agents[]
) RETURNS bigint[] LANGUAGE plpgsql AS $record$
#variable_conflict use_column
DECLARE
	held bigint;
	lost text;
	made bigint[];
	gone bigint[];
	one record;
BEGIN
	IF the_fence IS NOT NULL THEN
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
			RAISE EXCEPTION 'fenced' USING ERRCODE = 'NV001', DETAIL = lost;
		END IF;
	END IF;
	IF the_agents IS NOT NULL THEN
		WITH new AS (INSERT INTO leases (agent, owner, epoch)
			SELECT agent, nullif(the_daemon, 0), 1 FROM unnest(the_agents) ON CONFLICT DO NOTHING RETURNING agent)
			SELECT array_agg(agent) INTO made FROM new;
		IF the_daemon <> 0 AND EXISTS (SELECT FROM unnest(the_agents) AS new JOIN agents AS old
				ON old.agent = new.agent WHERE old.id <> new.id) THEN
			RAISE unique_violation USING MESSAGE = 'another agent has that number';
		END IF;
		INSERT INTO agents ("agent", "id", "name", "state", "why", "wake_at") SELECT "agent", "id", "name", "state", "why", "wake_at" FROM unnest(the_agents) AS new WHERE the_daemon = 0 OR EXISTS (SELECT FROM leases AS old WHERE old.agent = new.agent AND old.owner = the_daemon) ON CONFLICT (agent) DO UPDATE SET "id" = excluded."id", "name" = excluded."name", "state" = excluded."state", "why" = excluded."why", "wake_at" = excluded."wake_at";
	END IF;
	IF the_definitions IS NOT NULL THEN
		UPDATE definitions AS old SET current = false FROM unnest(the_definitions) AS new
			WHERE new.current AND old.agent = new.agent AND old.kind = new.kind AND old.name = new.name AND old.digest <> new.digest;
		INSERT INTO definitions ("agent", "digest", "kind", "name", "path", "text", "loaded", "current") SELECT "agent", "digest", "kind", "name", "path", "text", "loaded", "current" FROM unnest(the_definitions) ON CONFLICT (agent, digest, kind, name) DO UPDATE SET "path" = excluded."path", "text" = excluded."text", "loaded" = excluded."loaded", "current" = excluded."current";
	END IF;
	IF the_texts IS NOT NULL THEN
		PERFORM pg_advisory_xact_lock_shared(hashtext('narval'), hashtext(current_schema()));
		INSERT INTO texts ("digest", "data") SELECT "digest", "data" FROM unnest(the_texts) ON CONFLICT DO NOTHING;
	END IF;
	IF the_retired IS NOT NULL THEN
		UPDATE definitions AS old SET current = false FROM unnest(the_retired) AS new WHERE old.agent = new.agent AND old.digest = new.digest AND old.kind = new.kind AND old.name = new.name;
	END IF;
	IF the_elements IS NOT NULL THEN
		INSERT INTO elements ("agent", "eid", "name", "xml", "added", "origin", "declared", "outdated", "held_by", "text") SELECT "agent", "eid", "name", "xml", "added", "origin", "declared", "outdated", "held_by", "text" FROM unnest(the_elements);
	END IF;
	IF the_outdated IS NOT NULL THEN
		UPDATE elements AS old SET outdated = true FROM unnest(the_outdated) AS new WHERE old.agent = new.agent AND old.eid = new.eid;
	END IF;
	IF the_undeclared IS NOT NULL THEN
		UPDATE elements AS old SET declared = '' FROM unnest(the_undeclared) AS new WHERE old.agent = new.agent AND old.eid = new.eid;
	END IF;
	IF the_contexts IS NOT NULL THEN
		INSERT INTO contexts ("agent", "run", "eid") SELECT "agent", "run", "eid" FROM unnest(the_contexts) ON CONFLICT DO NOTHING;
	END IF;
	IF the_marks IS NOT NULL THEN
		INSERT INTO marks ("agent", "definition", "place", "slot", "eid", "run") SELECT "agent", "definition", "place", "slot", "eid", "run" FROM unnest(the_marks) ON CONFLICT DO NOTHING;
	END IF;
	IF the_keys IS NOT NULL THEN
		INSERT INTO keys ("agent", "name", "expression", "value") SELECT "agent", "name", "expression", "value" FROM unnest(the_keys) ON CONFLICT DO NOTHING;
	END IF;
	IF the_runs IS NOT NULL THEN
		INSERT INTO runs ("agent", "eid", "kind", "name", "digest", "state", "phase", "started", "ended", "parent_run", "parent_step", "parent_call", "attempt", "error", "by", "actor") SELECT "agent", "eid", "kind", "name", "digest", "state", "phase", "started", "ended", "parent_run", "parent_step", "parent_call", "attempt", "error", "by", "actor" FROM unnest(the_runs) ON CONFLICT (agent, eid) DO UPDATE SET "kind" = excluded."kind", "name" = excluded."name", "digest" = excluded."digest", "state" = excluded."state", "phase" = excluded."phase", "started" = excluded."started", "ended" = excluded."ended", "parent_run" = excluded."parent_run", "parent_step" = excluded."parent_step", "parent_call" = excluded."parent_call", "attempt" = excluded."attempt", "error" = excluded."error", "by" = excluded."by", "actor" = excluded."actor";
	END IF;
	IF the_journal IS NOT NULL THEN
		INSERT INTO journal ("agent", "run", "seq", "at", "data") SELECT "agent", "run", "seq", "at", "data" FROM unnest(the_journal);
	END IF;
	IF the_snapshots IS NOT NULL THEN
		INSERT INTO snapshots ("agent", "run", "seq", "data") SELECT "agent", "run", "seq", "data" FROM unnest(the_snapshots) ON CONFLICT (agent, run) DO UPDATE SET "seq" = excluded."seq", "data" = excluded."data";
	END IF;
	IF the_queue IS NOT NULL THEN
		INSERT INTO queue ("agent", "id", "run", "data") SELECT "agent", "id", "run", "data" FROM unnest(the_queue) ON CONFLICT (agent, id) DO UPDATE SET "run" = excluded."run", "data" = excluded."data";
	END IF;
	IF the_moments IS NOT NULL THEN
		INSERT INTO moments ("agent", "id", "at", "data") SELECT "agent", "id", "at", "data" FROM unnest(the_moments) ON CONFLICT (agent, id) DO UPDATE SET "at" = excluded."at", "data" = excluded."data";
	END IF;
	IF the_meta IS NOT NULL THEN
		INSERT INTO meta ("agent", "key", "value") SELECT "agent", "key", "value" FROM unnest(the_meta) ON CONFLICT (agent, key) DO UPDATE SET "value" = excluded."value";
	END IF;
	IF the_messages IS NOT NULL THEN
		INSERT INTO messages ("agent", "sender", "number", "id", "kind", "at", "until", "origin", "data") SELECT "agent", "sender", "number", "id", "kind", "at", "until", "origin", "data" FROM unnest(the_messages);
	END IF;
	IF the_taken IS NOT NULL THEN
		INSERT INTO taken ("agent", "sender", "number") SELECT "agent", "sender", "number" FROM unnest(the_taken) ON CONFLICT (agent, sender) DO UPDATE SET "number" = excluded."number";
		DELETE FROM messages AS old USING unnest(the_taken) AS new
			WHERE old.agent = new.agent AND old.sender = new.sender AND old.number <= new.number;
	END IF;
	IF the_dead_letters IS NOT NULL THEN
		INSERT INTO dead_letters ("agent", "receiver", "number", "id", "kind", "reason", "at", "until", "origin", "data") SELECT "agent", "receiver", "number", "id", "kind", "reason", "at", "until", "origin", "data" FROM unnest(the_dead_letters);
		DELETE FROM dead_letters AS old USING unnest(the_dead_letters) AS new
			WHERE old.agent = new.agent AND old.at < new.at - 2592000.0;
	END IF;
	IF the_trimmed IS NOT NULL THEN
		FOR one IN SELECT * FROM unnest(the_trimmed) LOOP
			DELETE FROM journal WHERE line IN (SELECT line FROM journal
				WHERE agent = one.agent AND run = one.run AND seq <= one.seq AND line <= (SELECT line FROM journal
					WHERE agent = one.agent AND run = one.run ORDER BY line DESC LIMIT 1 OFFSET one.keep)
				ORDER BY line LIMIT 5000);
		END LOOP;
	END IF;
	IF the_dequeued IS NOT NULL THEN
		DELETE FROM queue AS old USING unnest(the_dequeued) AS new WHERE old.agent = new.agent AND old.id = new.id;
	END IF;
	IF the_moments_done IS NOT NULL THEN
		DELETE FROM moments AS old USING unnest(the_moments_done) AS new WHERE old.agent = new.agent AND old.id = new.id;
	END IF;
	IF the_letters_settled IS NOT NULL THEN
		DELETE FROM dead_letters AS old USING unnest(the_letters_settled) AS new WHERE old.agent = new.agent AND old.line = new.line;
	END IF;
	IF the_unheld IS NOT NULL THEN
		UPDATE elements AS old SET held_by = NULL FROM unnest(the_unheld) AS new WHERE old.agent = new.agent AND old.held_by = new.run AND old.eid = new.eid;
		DELETE FROM contexts AS old USING unnest(the_unheld) AS new WHERE old.agent = new.agent AND old.run = new.run AND old.eid = new.eid;
	END IF;
	IF the_forgotten_elements IS NOT NULL THEN
		DELETE FROM elements AS old USING unnest(the_forgotten_elements) AS new WHERE old.agent = new.agent AND old.eid = new.eid;
		DELETE FROM marks AS old USING unnest(the_forgotten_elements) AS new WHERE old.agent = new.agent AND old.eid = new.eid;
	END IF;
	IF the_forgotten_runs IS NOT NULL THEN
		DELETE FROM runs AS old USING unnest(the_forgotten_runs) AS new WHERE old.agent = new.agent AND old.eid = new.run;
		DELETE FROM marks AS old USING unnest(the_forgotten_runs) AS new WHERE old.agent = new.agent AND old.eid = new.run;
		DELETE FROM contexts AS old USING unnest(the_forgotten_runs) AS new WHERE old.agent = new.agent AND old.run = new.run;
		DELETE FROM journal AS old USING unnest(the_forgotten_runs) AS new WHERE old.agent = new.agent AND old.run = new.run;
		DELETE FROM snapshots AS old USING unnest(the_forgotten_runs) AS new WHERE old.agent = new.agent AND old.run = new.run;
	END IF;
	IF the_removed_agents IS NOT NULL THEN
		SELECT array_agg(new.agent) INTO gone FROM unnest(the_removed_agents) AS new WHERE the_daemon = 0 OR EXISTS (
			SELECT FROM leases AS old WHERE old.agent = new.agent AND old.owner = the_daemon);
		DELETE FROM meta WHERE agent = ANY (gone);
		DELETE FROM elements WHERE agent = ANY (gone);
		DELETE FROM contexts WHERE agent = ANY (gone);
		DELETE FROM marks WHERE agent = ANY (gone);
		DELETE FROM keys WHERE agent = ANY (gone);
		DELETE FROM runs WHERE agent = ANY (gone);
		DELETE FROM journal WHERE agent = ANY (gone);
		DELETE FROM snapshots WHERE agent = ANY (gone);
		DELETE FROM queue WHERE agent = ANY (gone);
		DELETE FROM moments WHERE agent = ANY (gone);
		DELETE FROM definitions WHERE agent = ANY (gone);
		DELETE FROM taken WHERE agent = ANY (gone);
		DELETE FROM dead_letters WHERE agent = ANY (gone);
		DELETE FROM agents WHERE agent = ANY (gone);
		DELETE FROM leases WHERE agent = ANY (gone);
		DELETE FROM messages WHERE the_daemon = 0 AND agent = ANY (gone);
		DELETE FROM messages AS old WHERE old.sender = ANY (gone) AND NOT EXISTS (
			SELECT FROM agents AS new WHERE new.agent = old.agent);
	END IF;
	RETURN made;
END
$record$;

-- name: name of record
record_0004_00a3e8a3;

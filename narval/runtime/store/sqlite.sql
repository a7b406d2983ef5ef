-- Written by `python -m narval.runtime.store.tables`, from the tables and statements of that module.

-- name: schema
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE contexts (
	run INTEGER NOT NULL,
	eid INTEGER NOT NULL,
	PRIMARY KEY (run, eid)
)
 WITHOUT ROWID;

CREATE TABLE definitions (
	digest TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	path TEXT NOT NULL,
	source BLOB NOT NULL,
	loaded DOUBLE NOT NULL,
	current BOOLEAN NOT NULL,
	PRIMARY KEY (digest, kind, name)
);

CREATE TABLE elements (
	eid INTEGER NOT NULL,
	name TEXT NOT NULL,
	xml BLOB NOT NULL,
	added DOUBLE NOT NULL,
	origin BLOB,
	declared TEXT NOT NULL,
	outdated BOOLEAN NOT NULL,
	held_by INTEGER,
	PRIMARY KEY (eid)
);

CREATE TABLE journal (
	run INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	at DOUBLE NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (seq)
);

CREATE INDEX journal_of_run ON journal (run);

CREATE TABLE keys (
	name TEXT NOT NULL,
	expression TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (name, expression, value)
)
 WITHOUT ROWID;

CREATE TABLE marks (
	eid INTEGER NOT NULL,
	definition TEXT NOT NULL,
	place TEXT NOT NULL,
	slot TEXT NOT NULL,
	PRIMARY KEY (eid, definition, place, slot)
)
 WITHOUT ROWID;

CREATE TABLE meta (
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY ("key")
)
 WITHOUT ROWID;

CREATE TABLE moments (
	id TEXT NOT NULL,
	at DOUBLE NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE queue (
	id INTEGER NOT NULL,
	run INTEGER NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (id)
);

CREATE TABLE runs (
	eid INTEGER NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	digest TEXT NOT NULL,
	state TEXT NOT NULL,
	phase TEXT NOT NULL,
	started DOUBLE NOT NULL,
	ended DOUBLE,
	parent_run INTEGER,
	parent_step TEXT NOT NULL,
	parent_call TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	error INTEGER,
	"by" TEXT NOT NULL,
	PRIMARY KEY (eid)
);

CREATE TABLE snapshots (
	run INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (run)
);

-- name: supersede definition
UPDATE definitions SET current=false WHERE definitions.kind = ? AND definitions.name = ? AND definitions.digest != ?;

-- name: put definition
INSERT INTO definitions (digest, kind, name, path, source, loaded, current) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (digest, kind, name) DO UPDATE SET path = excluded.path, source = excluded.source, loaded = excluded.loaded, current = excluded.current;

-- name: add element
INSERT INTO elements (eid, name, xml, added, origin, declared, outdated, held_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: outdate element
UPDATE elements SET outdated=1 WHERE elements.eid = ?;

-- name: undeclare element
UPDATE elements SET declared='' WHERE elements.eid = ?;

-- name: hold
INSERT INTO contexts (run, eid) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: mark
INSERT INTO marks (eid, definition, place, slot) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: add key
INSERT INTO keys (name, expression, value) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: put run
INSERT INTO runs (eid, kind, name, digest, state, phase, started, ended, parent_run, parent_step, parent_call, attempt, error, "by") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (eid) DO UPDATE SET kind = excluded.kind, name = excluded.name, digest = excluded.digest, state = excluded.state, phase = excluded.phase, started = excluded.started, ended = excluded.ended, parent_run = excluded.parent_run, parent_step = excluded.parent_step, parent_call = excluded.parent_call, attempt = excluded.attempt, error = excluded.error, "by" = excluded."by";

-- name: add entry
INSERT INTO journal (run, seq, at, data) VALUES (?, ?, ?, ?);

-- name: put snapshot
INSERT INTO snapshots (run, seq, data) VALUES (?, ?, ?) ON CONFLICT (run) DO UPDATE SET seq = excluded.seq, data = excluded.data;

-- name: put event
INSERT INTO queue (id, run, data) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET run = excluded.run, data = excluded.data;

-- name: put moment
INSERT INTO moments (id, at, data) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET at = excluded.at, data = excluded.data;

-- name: put meta
INSERT INTO meta ("key", value) VALUES (?, ?) ON CONFLICT ("key") DO UPDATE SET value = excluded.value;

-- name: trim journal
DELETE FROM journal WHERE journal.seq IN (SELECT journal.seq
FROM journal
WHERE journal.run = ? AND journal.seq <= ? AND journal.seq <= (SELECT journal.seq
FROM journal
WHERE journal.run = ? ORDER BY journal.seq DESC
 LIMIT 1 OFFSET ?) ORDER BY journal.seq
 LIMIT 5000 OFFSET 0);

-- name: drop event
DELETE FROM queue WHERE queue.id = ?;

-- name: drop moment
DELETE FROM moments WHERE moments.id = ?;

-- name: unhold by its maker
UPDATE elements SET held_by=NULL WHERE elements.held_by = ? AND elements.eid = ?;

-- name: unhold
DELETE FROM contexts WHERE contexts.run = ? AND contexts.eid = ?;

-- name: drop element
DELETE FROM elements WHERE elements.eid = ?;

-- name: drop marks
DELETE FROM marks WHERE marks.eid = ?;

-- name: drop run
DELETE FROM runs WHERE runs.eid = ?;

-- name: drop context
DELETE FROM contexts WHERE contexts.run = ?;

-- name: drop entries
DELETE FROM journal WHERE journal.run = ?;

-- name: drop snapshot
DELETE FROM snapshots WHERE snapshots.run = ?;

-- name: elements
SELECT elements.eid, elements.name, elements.xml, elements.added, elements.origin, elements.declared, elements.outdated, elements.held_by
FROM elements ORDER BY elements.eid;

-- name: contexts
SELECT elements.held_by AS run, elements.eid
FROM elements
WHERE elements.held_by IN (SELECT runs.eid
FROM runs) UNION ALL SELECT contexts.run, contexts.eid
FROM contexts
WHERE contexts.run IN (SELECT runs.eid
FROM runs) AND contexts.eid IN (SELECT elements.eid
FROM elements UNION SELECT runs.eid
FROM runs) ORDER BY run, eid;

-- name: marks
SELECT marks.eid, marks.definition, marks.place, marks.slot
FROM marks ORDER BY marks.eid, marks.definition, marks.place, marks.slot;

-- name: keys
SELECT keys.name, keys.expression, keys.value
FROM keys ORDER BY keys.name, keys.expression, keys.value;

-- name: events
SELECT queue.id, queue.run, queue.data
FROM queue ORDER BY queue.id;

-- name: moments
SELECT moments.id, moments.at, moments.data
FROM moments ORDER BY moments.at, moments.id;

-- name: meta
SELECT meta."key", meta.value
FROM meta ORDER BY meta."key";

-- name: runs
SELECT runs.eid, runs.kind, runs.name, runs.digest, runs.state, runs.phase, runs.started, runs.ended, runs.parent_run, runs.parent_step, runs.parent_call, runs.attempt, runs.error, runs."by"
FROM runs ORDER BY runs.eid;

-- name: entries of run
SELECT journal.run, journal.seq, journal.at, journal.data
FROM journal
WHERE journal.run = ? AND journal.seq > ? ORDER BY journal.seq;

-- name: snapshot
SELECT snapshots.run, snapshots.seq, snapshots.data
FROM snapshots
WHERE snapshots.run = ?;

-- name: definitions
SELECT definitions.digest, definitions.kind, definitions.name, definitions.path, definitions.source, definitions.loaded, definitions.current
FROM definitions
WHERE definitions.current = coalesce(?, definitions.current) ORDER BY definitions.loaded, definitions.kind, definitions.name;

-- name: definition
SELECT definitions.digest, definitions.kind, definitions.name, definitions.path, definitions.source, definitions.loaded, definitions.current
FROM definitions
WHERE definitions.digest = ?;

-- name: version
SELECT alembic_version.version_num
FROM alembic_version;

-- name: stamp
INSERT INTO alembic_version (version_num) VALUES (?);

-- name: drop definitions
DELETE FROM definitions WHERE definitions.current IS 0 AND (definitions.digest NOT IN (SELECT runs.digest
FROM runs));

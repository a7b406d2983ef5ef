-- Written by `python -m narval.store.tables`, from the tables and statements of that module.

-- name: schema
CREATE TABLE agents (
	agent INTEGER NOT NULL,
	id TEXT NOT NULL,
	name TEXT NOT NULL,
	state TEXT NOT NULL,
	why TEXT NOT NULL,
	wake_at DOUBLE,
	PRIMARY KEY (agent)
)
 WITHOUT ROWID;

CREATE UNIQUE INDEX agents_by_name ON agents (name);

CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE contexts (
	agent INTEGER NOT NULL,
	run INTEGER NOT NULL,
	eid INTEGER NOT NULL,
	PRIMARY KEY (agent, run, eid)
)
 WITHOUT ROWID;

CREATE TABLE dead_letters (
	line INTEGER NOT NULL,
	agent INTEGER NOT NULL,
	receiver TEXT NOT NULL,
	number INTEGER NOT NULL,
	id TEXT NOT NULL,
	kind TEXT NOT NULL,
	reason TEXT NOT NULL,
	at DOUBLE NOT NULL,
	until DOUBLE,
	origin BLOB NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (line)
);

CREATE INDEX dead_letters_by_agent ON dead_letters (agent);

CREATE TABLE definitions (
	agent INTEGER NOT NULL,
	digest TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	path TEXT NOT NULL,
	text BLOB NOT NULL,
	loaded DOUBLE NOT NULL,
	current BOOLEAN NOT NULL,
	PRIMARY KEY (agent, digest, kind, name)
)
 WITHOUT ROWID;

CREATE TABLE elements (
	line INTEGER NOT NULL,
	agent INTEGER NOT NULL,
	eid INTEGER NOT NULL,
	name TEXT NOT NULL,
	xml BLOB NOT NULL,
	added DOUBLE NOT NULL,
	origin BLOB,
	declared TEXT NOT NULL,
	outdated BOOLEAN NOT NULL,
	held_by INTEGER,
	text BLOB,
	PRIMARY KEY (line)
);

CREATE UNIQUE INDEX elements_by_eid ON elements (agent, eid);

CREATE INDEX elements_by_text ON elements (text) WHERE text IS NOT NULL;

CREATE TABLE journal (
	line INTEGER NOT NULL,
	agent INTEGER NOT NULL,
	run INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	at DOUBLE NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (line)
);

CREATE INDEX journal_by_run ON journal (agent, run);

CREATE TABLE keys (
	agent INTEGER NOT NULL,
	name TEXT NOT NULL,
	expression TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (agent, name, expression, value)
)
 WITHOUT ROWID;

CREATE TABLE marks (
	agent INTEGER NOT NULL,
	definition TEXT NOT NULL,
	place TEXT NOT NULL,
	slot TEXT NOT NULL,
	eid INTEGER NOT NULL,
	run INTEGER NOT NULL,
	PRIMARY KEY (agent, eid, definition, place, slot)
)
 WITHOUT ROWID;

CREATE TABLE messages (
	agent INTEGER NOT NULL,
	sender INTEGER NOT NULL,
	number INTEGER NOT NULL,
	id TEXT NOT NULL,
	kind TEXT NOT NULL,
	at DOUBLE NOT NULL,
	until DOUBLE,
	origin BLOB NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (agent, sender, number)
)
 WITHOUT ROWID;

CREATE TABLE meta (
	agent INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (agent, "key")
)
 WITHOUT ROWID;

CREATE TABLE moments (
	agent INTEGER NOT NULL,
	id TEXT NOT NULL,
	at DOUBLE NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (agent, id)
)
 WITHOUT ROWID;

CREATE TABLE queue (
	agent INTEGER NOT NULL,
	id INTEGER NOT NULL,
	run INTEGER NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (agent, id)
)
 WITHOUT ROWID;

CREATE TABLE runs (
	agent INTEGER NOT NULL,
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
	actor TEXT NOT NULL,
	PRIMARY KEY (agent, eid)
)
 WITHOUT ROWID;

CREATE TABLE snapshots (
	agent INTEGER NOT NULL,
	run INTEGER NOT NULL,
	seq INTEGER NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (agent, run)
)
 WITHOUT ROWID;

CREATE TABLE taken (
	agent INTEGER NOT NULL,
	sender INTEGER NOT NULL,
	number INTEGER NOT NULL,
	PRIMARY KEY (agent, sender)
)
 WITHOUT ROWID;

CREATE TABLE texts (
	digest BLOB NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (digest)
);

-- name: put agent
INSERT INTO agents (agent, id, name, state, why, wake_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (agent) DO UPDATE SET id = excluded.id, name = excluded.name, state = excluded.state, why = excluded.why, wake_at = excluded.wake_at;

-- name: supersede definition
UPDATE definitions SET current=false WHERE definitions.agent = ? AND definitions.kind = ? AND definitions.name = ? AND definitions.digest != ?;

-- name: add text
INSERT INTO texts (digest, data) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: put definition
INSERT INTO definitions (agent, digest, kind, name, path, text, loaded, current) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agent, digest, kind, name) DO UPDATE SET path = excluded.path, text = excluded.text, loaded = excluded.loaded, current = excluded.current;

-- name: retire definition
UPDATE definitions SET current=false WHERE definitions.agent = ? AND definitions.digest = ? AND definitions.kind = ? AND definitions.name = ?;

-- name: share element
INSERT INTO elements (agent, eid, name, xml, added, origin, declared, outdated, held_by, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add element
INSERT INTO elements (agent, eid, name, xml, added, origin, declared, outdated, held_by) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: outdate element
UPDATE elements SET outdated=1 WHERE elements.agent = ? AND elements.eid = ?;

-- name: undeclare element
UPDATE elements SET declared='' WHERE elements.agent = ? AND elements.eid = ?;

-- name: hold
INSERT INTO contexts (agent, run, eid) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: mark
INSERT INTO marks (agent, definition, place, slot, eid, run) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: add key
INSERT INTO keys (agent, name, expression, value) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: put run
INSERT INTO runs (agent, eid, kind, name, digest, state, phase, started, ended, parent_run, parent_step, parent_call, attempt, error, "by", actor) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (agent, eid) DO UPDATE SET kind = excluded.kind, name = excluded.name, digest = excluded.digest, state = excluded.state, phase = excluded.phase, started = excluded.started, ended = excluded.ended, parent_run = excluded.parent_run, parent_step = excluded.parent_step, parent_call = excluded.parent_call, attempt = excluded.attempt, error = excluded.error, "by" = excluded."by", actor = excluded.actor;

-- name: add entry
INSERT INTO journal (agent, run, seq, at, data) VALUES (?, ?, ?, ?, ?);

-- name: put snapshot
INSERT INTO snapshots (agent, run, seq, data) VALUES (?, ?, ?, ?) ON CONFLICT (agent, run) DO UPDATE SET seq = excluded.seq, data = excluded.data;

-- name: put event
INSERT INTO queue (agent, id, run, data) VALUES (?, ?, ?, ?) ON CONFLICT (agent, id) DO UPDATE SET run = excluded.run, data = excluded.data;

-- name: put moment
INSERT INTO moments (agent, id, at, data) VALUES (?, ?, ?, ?) ON CONFLICT (agent, id) DO UPDATE SET at = excluded.at, data = excluded.data;

-- name: put meta
INSERT INTO meta (agent, "key", value) VALUES (?, ?, ?) ON CONFLICT (agent, "key") DO UPDATE SET value = excluded.value;

-- name: add message
INSERT INTO messages (agent, sender, number, id, kind, at, until, origin, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: put taken
INSERT INTO taken (agent, sender, number) VALUES (?, ?, ?) ON CONFLICT (agent, sender) DO UPDATE SET number = excluded.number;

-- name: add dead letter
INSERT INTO dead_letters (agent, receiver, number, id, kind, reason, at, until, origin, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: trim journal
DELETE FROM journal WHERE journal.line IN (SELECT journal.line
FROM journal
WHERE journal.agent = ? AND journal.run = ? AND journal.seq <= ? AND journal.line <= (SELECT journal.line
FROM journal
WHERE journal.agent = ? AND journal.run = ? ORDER BY journal.line DESC
 LIMIT 1 OFFSET ?) ORDER BY journal.line
 LIMIT 5000 OFFSET 0);

-- name: drop event
DELETE FROM queue WHERE queue.agent = ? AND queue.id = ?;

-- name: drop moment
DELETE FROM moments WHERE moments.agent = ? AND moments.id = ?;

-- name: drop messages
DELETE FROM messages WHERE messages.agent = ? AND messages.sender = ? AND messages.number <= ?;

-- name: drop dead letter
DELETE FROM dead_letters WHERE dead_letters.agent = ? AND dead_letters.line = ?;

-- name: drop old dead letters
DELETE FROM dead_letters WHERE dead_letters.agent = ? AND dead_letters.at < ?;

-- name: unhold by its maker
UPDATE elements SET held_by=NULL WHERE elements.agent = ? AND elements.held_by = ? AND elements.eid = ?;

-- name: unhold
DELETE FROM contexts WHERE contexts.agent = ? AND contexts.run = ? AND contexts.eid = ?;

-- name: drop element
DELETE FROM elements WHERE elements.agent = ? AND elements.eid = ?;

-- name: drop marks
DELETE FROM marks WHERE marks.agent = ? AND marks.eid = ?;

-- name: drop run
DELETE FROM runs WHERE runs.agent = ? AND runs.eid = ?;

-- name: drop context
DELETE FROM contexts WHERE contexts.agent = ? AND contexts.run = ?;

-- name: drop entries
DELETE FROM journal WHERE journal.agent = ? AND journal.run = ?;

-- name: drop snapshot
DELETE FROM snapshots WHERE snapshots.agent = ? AND snapshots.run = ?;

-- name: remove meta
DELETE FROM meta WHERE meta.agent = ?;

-- name: remove elements
DELETE FROM elements WHERE elements.agent = ?;

-- name: remove contexts
DELETE FROM contexts WHERE contexts.agent = ?;

-- name: remove marks
DELETE FROM marks WHERE marks.agent = ?;

-- name: remove keys
DELETE FROM keys WHERE keys.agent = ?;

-- name: remove runs
DELETE FROM runs WHERE runs.agent = ?;

-- name: remove journal
DELETE FROM journal WHERE journal.agent = ?;

-- name: remove snapshots
DELETE FROM snapshots WHERE snapshots.agent = ?;

-- name: remove queue
DELETE FROM queue WHERE queue.agent = ?;

-- name: remove moments
DELETE FROM moments WHERE moments.agent = ?;

-- name: remove definitions
DELETE FROM definitions WHERE definitions.agent = ?;

-- name: remove messages
DELETE FROM messages WHERE messages.agent = ?;

-- name: remove taken
DELETE FROM taken WHERE taken.agent = ?;

-- name: remove dead_letters
DELETE FROM dead_letters WHERE dead_letters.agent = ?;

-- name: remove agents
DELETE FROM agents WHERE agents.agent = ?;

-- name: agent
SELECT agents.agent, agents.id, agents.name, agents.state, agents.why, agents.wake_at
FROM agents
WHERE agents.agent = ?;

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
WHERE elements.agent = ? ORDER BY elements.eid;

-- name: element
SELECT elements.eid, elements.name, coalesce(texts.data, elements.xml) AS coalesce_1, elements.added, elements.origin, elements.declared, elements.outdated, elements.held_by
FROM elements LEFT OUTER JOIN texts ON texts.digest = elements.text
WHERE elements.agent = ? AND elements.eid = ?;

-- name: elements of files
SELECT elements.eid, elements.name, coalesce(texts.data, elements.xml) AS coalesce_1, elements.added, elements.origin, elements.declared, elements.outdated, elements.held_by
FROM elements LEFT OUTER JOIN texts ON texts.digest = elements.text
WHERE elements.agent = ? AND (elements.declared != '' OR elements.name = 'start-plan' OR elements.name = '{http://www.logilab.org/namespaces/Narval/1.2}start-plan' OR elements.name = '{http://www.logilab.org/namespaces/Narval/1.2}task-object') ORDER BY elements.eid;

-- name: last eids
SELECT max(elements.eid) AS max_1
FROM elements
WHERE elements.agent = ? UNION ALL SELECT max(runs.eid) AS max_2
FROM runs
WHERE runs.agent = ?;

-- name: marks of element
SELECT marks.definition, marks.place, marks.slot, marks.eid, marks.run
FROM marks
WHERE marks.agent = ? AND marks.eid = ? ORDER BY marks.definition, marks.place, marks.slot;

-- name: contexts
SELECT elements.held_by AS run, elements.eid
FROM elements
WHERE elements.agent = ? AND (EXISTS (SELECT runs.eid
FROM runs
WHERE runs.agent = elements.agent AND runs.eid = elements.held_by)) UNION ALL SELECT contexts.run, contexts.eid
FROM contexts
WHERE contexts.agent = ? AND (EXISTS (SELECT runs.eid
FROM runs
WHERE runs.agent = contexts.agent AND runs.eid = contexts.run)) AND ((EXISTS (SELECT elements.eid
FROM elements
WHERE elements.agent = contexts.agent AND elements.eid = contexts.eid)) OR (EXISTS (SELECT runs.eid
FROM runs
WHERE runs.agent = contexts.agent AND runs.eid = contexts.eid))) ORDER BY run, eid;

-- name: marks
SELECT marks.definition, marks.place, marks.slot, marks.eid, marks.run
FROM marks
WHERE marks.agent = ? ORDER BY marks.eid, marks.definition, marks.place, marks.slot;

-- name: keys
SELECT keys.name, keys.expression, keys.value
FROM keys
WHERE keys.agent = ? ORDER BY keys.name, keys.expression, keys.value;

-- name: events
SELECT queue.id, queue.run, queue.data
FROM queue
WHERE queue.agent = ? ORDER BY queue.id;

-- name: moments
SELECT moments.id, moments.at, moments.data
FROM moments
WHERE moments.agent = ? ORDER BY moments.at, moments.id;

-- name: meta
SELECT meta."key", meta.value
FROM meta
WHERE meta.agent = ? ORDER BY meta."key";

-- name: runs
SELECT runs.eid, runs.kind, runs.name, runs.digest, runs.state, runs.phase, runs.started, runs.ended, runs.parent_run, runs.parent_step, runs.parent_call, runs.attempt, runs.error, runs."by", runs.actor
FROM runs
WHERE runs.agent = ? ORDER BY runs.eid;

-- name: runs before
SELECT runs.eid, runs.kind, runs.name, runs.digest, runs.state, runs.phase, runs.started, runs.ended, runs.parent_run, runs.parent_step, runs.parent_call, runs.attempt, runs.error, runs."by", runs.actor
FROM runs
WHERE runs.agent = ? AND runs.eid < ? ORDER BY runs.eid DESC;

-- name: entries of run
SELECT journal.run, journal.seq, journal.at, journal.data
FROM journal
WHERE journal.agent = ? AND journal.run = ? AND journal.seq > ? ORDER BY journal.line
 LIMIT ? OFFSET 0;

-- name: entries before
SELECT journal.run, journal.seq, journal.at, journal.data
FROM journal
WHERE journal.agent = ? AND journal.run = ? AND journal.seq < ? ORDER BY journal.line DESC
 LIMIT ? OFFSET 0;

-- name: snapshot
SELECT snapshots.run, snapshots.seq, snapshots.data
FROM snapshots
WHERE snapshots.agent = ? AND snapshots.run = ?;

-- name: entries under way
SELECT journal.run, journal.seq, journal.at, journal.data
FROM journal
WHERE journal.agent = ? AND journal.run IN (SELECT runs.eid
FROM runs
WHERE runs.agent = ? AND runs.phase = 'active' AND runs.eid BETWEEN ? AND ?) AND journal.seq > coalesce((SELECT snapshots.seq
FROM snapshots
WHERE snapshots.agent = journal.agent AND snapshots.run = journal.run), 0);

-- name: snapshots under way
SELECT snapshots.run, snapshots.seq, snapshots.data
FROM snapshots
WHERE snapshots.agent = ? AND snapshots.run IN (SELECT runs.eid
FROM runs
WHERE runs.agent = ? AND runs.phase = 'active' AND runs.eid BETWEEN ? AND ?);

-- name: definitions
SELECT definitions.digest, definitions.kind, definitions.name, definitions.path, texts.data, definitions.loaded, definitions.current
FROM definitions LEFT OUTER JOIN texts ON texts.digest = definitions.text
WHERE definitions.agent = ? AND definitions.current = coalesce(?, definitions.current) AND definitions.name = coalesce(?, definitions.name) ORDER BY definitions.loaded, definitions.kind, definitions.name;

-- name: definition
SELECT definitions.digest, definitions.kind, definitions.name, definitions.path, texts.data, definitions.loaded, definitions.current
FROM definitions LEFT OUTER JOIN texts ON texts.digest = definitions.text
WHERE definitions.agent = ? AND definitions.digest = ?;

-- name: current versions
SELECT definitions.kind, definitions.name, definitions.digest
FROM definitions
WHERE definitions.agent = ? AND definitions.current = 1;

-- name: waiting messages
SELECT messages.agent, messages.sender, count(*) AS count_1, sum(length(messages.data)) AS sum_1, min(messages.until) AS min_1, max(messages.number) AS max_1
FROM messages GROUP BY messages.agent, messages.sender ORDER BY messages.agent, messages.sender;

-- name: messages
SELECT messages.agent, messages.sender, messages.number, messages.id, messages.kind, messages.at, messages.until, messages.origin, messages.data
FROM messages
WHERE messages.agent = ? ORDER BY messages.sender, messages.number;

-- name: taken
SELECT taken.agent, taken.sender, taken.number
FROM taken
WHERE taken.agent = ? ORDER BY taken.sender;

-- name: messages of sender
SELECT messages.agent, messages.sender, messages.number, messages.id, messages.kind, messages.at, messages.until, messages.origin, messages.data
FROM messages
WHERE messages.sender = ? ORDER BY messages.agent, messages.number;

-- name: stray messages
SELECT messages.agent, messages.sender, messages.number, messages.id, messages.kind, messages.at, messages.until, messages.origin, messages.data
FROM messages
WHERE NOT (EXISTS (SELECT *
FROM agents
WHERE agents.agent = messages.agent)) ORDER BY messages.sender, messages.number;

-- name: ids of pair
SELECT messages.id
FROM messages
WHERE messages.agent = ? AND messages.sender = ?;

-- name: last sent
SELECT max(messages.number) AS max_1
FROM messages
WHERE messages.agent = ? AND messages.sender = ? UNION ALL SELECT max(taken.number) AS max_2
FROM taken
WHERE taken.agent = ? AND taken.sender = ?;

-- name: last correspondents
SELECT max(messages.agent) AS max_1
FROM messages UNION ALL SELECT max(messages.sender) AS max_2
FROM messages UNION ALL SELECT max(taken.agent) AS max_3
FROM taken UNION ALL SELECT max(taken.sender) AS max_4
FROM taken;

-- name: dead letters
SELECT dead_letters.line, dead_letters.agent, dead_letters.receiver, dead_letters.number, dead_letters.id, dead_letters.kind, dead_letters.reason, dead_letters.at, dead_letters.until, dead_letters.origin, dead_letters.data
FROM dead_letters
WHERE dead_letters.agent = ? ORDER BY dead_letters.line;

-- name: version
SELECT alembic_version.version_num
FROM alembic_version;

-- name: stamp
INSERT INTO alembic_version (version_num) VALUES (?);

-- name: drop definitions
DELETE FROM definitions WHERE definitions.current IS 0 AND ((definitions.agent, definitions.digest) NOT IN (SELECT runs.agent, runs.digest
FROM runs));

-- name: drop texts
DELETE FROM texts WHERE (texts.digest NOT IN (SELECT definitions.text
FROM definitions)) AND NOT (EXISTS (SELECT elements.line
FROM elements
WHERE elements.text = texts.digest));

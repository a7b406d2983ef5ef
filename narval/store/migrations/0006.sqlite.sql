-- The results that calls keep by key have a table.
-- forth
CREATE TABLE results (
	agent INTEGER NOT NULL,
	scope TEXT NOT NULL,
	key TEXT NOT NULL,
	at DOUBLE NOT NULL,
	data BLOB NOT NULL,
	PRIMARY KEY (agent, scope, key)
) WITHOUT ROWID;
UPDATE version SET number = 6;

-- back
DROP TABLE results;
UPDATE version SET number = 5;

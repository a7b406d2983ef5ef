-- The results that calls keep by key have a table.
-- forth
CREATE TABLE results (
	agent BIGINT NOT NULL,
	scope TEXT NOT NULL,
	key TEXT NOT NULL,
	at DOUBLE PRECISION NOT NULL,
	data BYTEA NOT NULL,
	PRIMARY KEY (agent, scope, key)
);
UPDATE version SET number = 6;

-- back
DROP TABLE results;
UPDATE version SET number = 5;

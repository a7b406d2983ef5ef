-- The version of the tables has a table of its own.
-- forth
DROP TABLE alembic_version;
CREATE TABLE version (
	number BIGINT NOT NULL,
	PRIMARY KEY (number)
);
INSERT INTO version VALUES (5);

-- back
DROP TABLE version;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version VALUES ('0004');

-- What was withdrawn, and what is doubtful because it was made from such, has a table of its own.
-- forth
CREATE TABLE withdrawals (
	agent BIGINT NOT NULL,
	eid BIGINT NOT NULL,
	why TEXT NOT NULL,
	doubtful BOOLEAN NOT NULL,
	PRIMARY KEY (agent, eid)
);
INSERT INTO withdrawals SELECT agent, eid, slot, place = 'doubtful' FROM marks
	WHERE definition = 'narval' AND place IN ('withdrawn', 'doubtful');
DELETE FROM marks WHERE definition = 'narval' AND place IN ('withdrawn', 'doubtful');
UPDATE version SET number = 8;

-- back
INSERT INTO marks (agent, definition, place, slot, eid, run)
	SELECT agent, 'narval', CASE WHEN doubtful THEN 'doubtful' ELSE 'withdrawn' END, why, eid, 0
	FROM withdrawals;
DROP TABLE withdrawals;
UPDATE version SET number = 7;

-- Labels have a table of their own: before, marks said of what a language model had a part in, not which.
-- forth
CREATE TABLE labels (
	agent BIGINT NOT NULL,
	eid BIGINT NOT NULL,
	label TEXT NOT NULL,
	PRIMARY KEY (agent, eid, label)
);
INSERT INTO labels SELECT agent, eid, slot FROM marks WHERE definition = 'narval' AND place = 'label';
INSERT INTO labels SELECT agent, eid, 'model:*' FROM marks
	WHERE definition = 'narval' AND place = 'model' AND slot = 'answer' AND NOT EXISTS (
		SELECT 1 FROM labels WHERE labels.agent = marks.agent AND labels.eid = marks.eid
		AND label LIKE 'model:%');
DELETE FROM marks WHERE definition = 'narval' AND place IN ('label', 'model');
UPDATE version SET number = 7;

-- back
INSERT INTO marks (agent, definition, place, slot, eid, run)
	SELECT agent, 'narval', 'label', label, eid, 0 FROM labels;
INSERT INTO marks (agent, definition, place, slot, eid, run)
	SELECT DISTINCT agent, 'narval', 'model', 'answer', eid, 0 FROM labels WHERE label LIKE 'model:%';
DROP TABLE labels;
UPDATE version SET number = 6;

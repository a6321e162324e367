-- The version that a node ran before the trial that goes on: the trial itself reports the new one. None outside of a trial.
ALTER TABLE node_facts ADD COLUMN version_before TEXT;
UPDATE node_facts SET version_before = coalesce(
    (SELECT h.from_version FROM nodes n JOIN rollout_notes h ON h.node = n.number
     WHERE n.id = node_facts.node_id AND h.attempt = node_facts.trial_attempt),
    (SELECT l.from_version FROM rollout_late l
     WHERE l.node_id = node_facts.node_id AND l.attempt = node_facts.trial_attempt))
WHERE trial_attempt IS NOT NULL;

-- The attempts whose end was told last, the newest first, with spaces between: a node that refuses one, or is new in its
-- process, speaks of an older one again.
CREATE TABLE attempts_told (
    node_id  TEXT PRIMARY KEY REFERENCES nodes (id),
    attempts TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO attempts_told (node_id, attempts)
SELECT f.node_id, json_extract(e.data, '$.attempt')
FROM (SELECT subject, max(position) AS position FROM events
      WHERE type IN ('node.upgraded', 'node.upgrade-failed') GROUP BY subject) newest
JOIN events e ON e.position = newest.position JOIN node_facts f ON newest.subject = 'node/' || f.node_id
WHERE json_extract(e.data, '$.attempt') IS NOT NULL;
INSERT INTO attempts_told (node_id, attempts)
SELECT node_id, attempt_id FROM node_facts
WHERE attempt_id IS NOT NULL AND (attempt_final = 1 OR attempt_outcome = 'confirmed')
ON CONFLICT (node_id) DO NOTHING;

-- A rollout's rows by number: what every pass asks of a row stands apart from what became of its node, and short keys
-- keep a million of them small.

ALTER TABLE nodes ADD COLUMN number INTEGER;
UPDATE nodes SET number = rowid;
CREATE UNIQUE INDEX nodes_by_number ON nodes (number);
CREATE TRIGGER nodes_number AFTER INSERT ON nodes BEGIN
    UPDATE nodes SET number = (SELECT coalesce(max(number), 0) + 1 FROM nodes) WHERE id = NEW.id;
END;
ALTER TABLE pools ADD COLUMN number INTEGER;
UPDATE pools SET number = rowid;
CREATE UNIQUE INDEX pools_by_number ON pools (number);
CREATE TRIGGER pools_number AFTER INSERT ON pools BEGIN
    UPDATE pools SET number = (SELECT coalesce(max(number), 0) + 1 FROM pools) WHERE id = NEW.id;
END;
ALTER TABLE rollouts ADD COLUMN number INTEGER;
UPDATE rollouts SET number = rowid;
CREATE UNIQUE INDEX rollouts_by_number ON rollouts (number);
CREATE TRIGGER rollouts_number AFTER INSERT ON rollouts BEGIN
    UPDATE rollouts SET number = (SELECT coalesce(max(number), 0) + 1 FROM rollouts) WHERE id = NEW.id;
END;

-- The numbers refer to rows that are never deleted. No key of the database's own watches that: it would look at every
-- node of a new rollout.
CREATE TABLE rollout_rows (
    rollout     INTEGER NOT NULL,
    node        INTEGER NOT NULL,
    -- The node's place in the rollout's order, from 0.
    place       INTEGER NOT NULL,
    pool        INTEGER NOT NULL,
    wave        INTEGER NOT NULL,
    state       TEXT NOT NULL,
    -- When the flight that goes on has taken too long.
    deadline_at INTEGER,
    -- Whether it has settled and its node still holds a place.
    lingers     INTEGER,
    PRIMARY KEY (rollout, node)
) STRICT, WITHOUT ROWID;

-- What became of a node, from its start on.
CREATE TABLE rollout_notes (
    rollout      INTEGER NOT NULL,
    node         INTEGER NOT NULL,
    from_version TEXT,
    attempt      TEXT,
    started_at   INTEGER,
    finished_at  INTEGER,
    -- The reason as a word and as a sentence.
    error_code   TEXT,
    error        TEXT,
    PRIMARY KEY (rollout, node)
) STRICT, WITHOUT ROWID;

INSERT INTO rollout_rows (rollout, node, place, pool, wave, state, deadline_at, lingers)
SELECT o.number, n.number, r.place, p.number, r.wave, r.state, r.deadline_at,
       CASE WHEN r.state NOT IN ('pending', 'upgrading', 'rolling-back')
                 AND EXISTS (SELECT 1 FROM disruptions d WHERE d.node_id = r.node_id AND d.reason = r.rollout_id)
                 AND NOT EXISTS (SELECT 1 FROM rollout_late l WHERE l.node_id = r.node_id AND l.rollout_id = r.rollout_id)
            THEN 1 END
FROM rollout_nodes r JOIN rollouts o ON o.id = r.rollout_id JOIN nodes n ON n.id = r.node_id
JOIN pools p ON p.id = r.pool_id;
INSERT INTO rollout_notes (rollout, node, from_version, attempt, started_at, finished_at, error_code, error)
SELECT o.number, n.number, r.from_version, r.attempt, r.started_at, r.finished_at, r.error_code, r.error
FROM rollout_nodes r JOIN rollouts o ON o.id = r.rollout_id JOIN nodes n ON n.id = r.node_id
WHERE r.state <> 'pending';
DROP TABLE rollout_nodes;

-- Whose turn it is, by wave and pool.
CREATE INDEX rollout_rows_waiting ON rollout_rows (rollout, wave, pool, place, node) WHERE state = 'pending';
-- In flight, the first to be overdue first.
CREATE INDEX rollout_rows_flying ON rollout_rows (rollout, deadline_at, node)
    WHERE state IN ('upgrading', 'rolling-back');
CREATE INDEX rollout_rows_failed ON rollout_rows (rollout, wave, node) WHERE state = 'failed';
CREATE INDEX rollout_rows_lingering ON rollout_rows (lingers, rollout, node) WHERE lingers = 1;

-- Both together, for people and for whatever asks of one node.
CREATE VIEW rollout_nodes AS
SELECT o.id AS rollout_id, r.place, n.id AS node_id, n.pool_id, r.wave, r.state, h.from_version, h.attempt, h.started_at,
       r.deadline_at, h.finished_at, h.error_code, h.error
FROM rollout_rows r
LEFT JOIN rollout_notes h ON h.rollout = r.rollout AND h.node = r.node
JOIN rollouts o ON o.number = r.rollout JOIN nodes n ON n.number = r.node;

-- Who is in scope of a new rollout, and who runs its release already.
CREATE INDEX nodes_in_scope ON nodes (pool_id, id, number, maintenance) WHERE removed_at IS NULL AND generation > 0;
CREATE INDEX node_facts_by_version ON node_facts (version, node_id);

-- Aborted rollouts that still roll nodes back.
CREATE INDEX rollouts_aborting ON rollouts (id) WHERE state = 'aborted' AND finished_at IS NULL;

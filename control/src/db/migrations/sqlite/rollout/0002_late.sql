-- Late nodes, frozen fleets and workflows. Times are milliseconds since 1970.

-- Nodes that a completed rollout started later, or found where it brings them: no wave counts them. A row that an
-- operator wants tried again is pending until it is started.
CREATE TABLE rollout_late (
    rollout_id   TEXT NOT NULL REFERENCES rollouts (id),
    node_id      TEXT NOT NULL REFERENCES nodes (id),
    pool_id      TEXT NOT NULL,
    state        TEXT NOT NULL,
    -- How often it was started; attempts are named by it.
    tries        INTEGER NOT NULL,
    from_version TEXT,
    attempt      TEXT NOT NULL,
    started_at   INTEGER,
    deadline_at  INTEGER,
    finished_at  INTEGER,
    error_code   TEXT,
    error        TEXT,
    PRIMARY KEY (node_id, rollout_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX rollout_late_by_rollout ON rollout_late (rollout_id, node_id);
CREATE INDEX rollout_late_in_flight ON rollout_late (rollout_id, node_id) WHERE state = 'upgrading';

-- Nodes that may be late: every one that is, and perhaps some that are not. Those that are ready are looked at in the
-- next pass; the others wait until something happens to them.
CREATE TABLE late_candidates (
    node_id TEXT PRIMARY KEY REFERENCES nodes (id),
    pool_id TEXT NOT NULL,
    ready   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX late_candidates_ready ON late_candidates (pool_id, node_id) WHERE ready = 1;
CREATE INDEX late_candidates_by_pool ON late_candidates (pool_id, node_id);
INSERT INTO late_candidates (node_id, pool_id, ready) SELECT id, pool_id, 1 FROM nodes WHERE removed_at IS NULL;

-- The newest completed rollout of a pool is what its late nodes converge on.
CREATE INDEX rollouts_converged_on ON rollouts (id) WHERE state = 'completed' AND narrowed = 0;

-- What holds for a whole tenant. The row is there from its first rollout on, so that whoever freezes has one to lock.
CREATE TABLE fleets (
    tenant        TEXT PRIMARY KEY,
    frozen_reason TEXT,
    frozen_by     TEXT,
    frozen_since  INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO fleets (tenant) SELECT DISTINCT tenant FROM rollouts;

CREATE TABLE workflows (
    id          TEXT PRIMARY KEY,
    tenant      TEXT NOT NULL,
    node_id     TEXT NOT NULL REFERENCES nodes (id),
    pool_id     TEXT NOT NULL,
    kind        TEXT NOT NULL,
    state       TEXT NOT NULL,
    reason      TEXT,
    created_at  INTEGER NOT NULL,
    created_by  TEXT NOT NULL,
    updated_at  INTEGER NOT NULL,
    finished_at INTEGER
) STRICT;
CREATE INDEX workflows_by_tenant ON workflows (tenant, created_at DESC, id DESC);
CREATE INDEX workflows_by_node ON workflows (node_id, created_at DESC, id DESC);

-- When a node's process last started again with nobody having asked for it, and the time before that.
ALTER TABLE node_facts ADD COLUMN started TEXT;
ALTER TABLE node_facts ADD COLUMN restarted_at INTEGER;
ALTER TABLE node_facts ADD COLUMN restarted_before_at INTEGER;
CREATE INDEX node_facts_by_restart ON node_facts (restarted_before_at, node_id) WHERE restarted_before_at IS NOT NULL;

-- Late nodes, frozen fleets and workflows. Times are milliseconds since 1970.

-- Nodes that a completed rollout started later, or found where it brings them: no wave counts them. A row that an
-- operator wants tried again is pending until it is started.
CREATE TABLE rollout_late (
    rollout_id   TEXT COLLATE "C" NOT NULL REFERENCES rollouts (id),
    node_id      TEXT COLLATE "C" NOT NULL REFERENCES nodes (id),
    pool_id      TEXT COLLATE "C" NOT NULL,
    state        TEXT COLLATE "C" NOT NULL,
    -- How often it was started; attempts are named by it.
    tries        BIGINT NOT NULL,
    from_version TEXT COLLATE "C",
    attempt      TEXT COLLATE "C" NOT NULL,
    started_at   BIGINT,
    deadline_at  BIGINT,
    finished_at  BIGINT,
    error_code   TEXT COLLATE "C",
    error        TEXT COLLATE "C",
    PRIMARY KEY (node_id, rollout_id)
);
CREATE INDEX rollout_late_by_rollout ON rollout_late (rollout_id, node_id);
CREATE INDEX rollout_late_in_flight ON rollout_late (rollout_id, node_id) WHERE state = 'upgrading';

-- Nodes that may be late: every one that is, and perhaps some that are not. Those that are ready are looked at in the
-- next pass; the others wait until something happens to them.
CREATE TABLE late_candidates (
    node_id TEXT COLLATE "C" PRIMARY KEY REFERENCES nodes (id),
    pool_id TEXT COLLATE "C" NOT NULL,
    ready   BIGINT NOT NULL
);
CREATE INDEX late_candidates_ready ON late_candidates (pool_id, node_id) WHERE ready = 1;
CREATE INDEX late_candidates_by_pool ON late_candidates (pool_id, node_id);
INSERT INTO late_candidates (node_id, pool_id, ready) SELECT id, pool_id, 1 FROM nodes WHERE removed_at IS NULL;

-- The newest completed rollout of a pool is what its late nodes converge on.
CREATE INDEX rollouts_converged_on ON rollouts (id) WHERE state = 'completed' AND narrowed = 0;

-- What holds for a whole tenant. The row is there from its first rollout on, so that whoever freezes has one to lock.
CREATE TABLE fleets (
    tenant        TEXT COLLATE "C" PRIMARY KEY,
    frozen_reason TEXT COLLATE "C",
    frozen_by     TEXT COLLATE "C",
    frozen_since  BIGINT
);
INSERT INTO fleets (tenant) SELECT DISTINCT tenant FROM rollouts;

CREATE TABLE workflows (
    id          TEXT COLLATE "C" PRIMARY KEY,
    tenant      TEXT COLLATE "C" NOT NULL,
    node_id     TEXT COLLATE "C" NOT NULL REFERENCES nodes (id),
    pool_id     TEXT COLLATE "C" NOT NULL,
    kind        TEXT COLLATE "C" NOT NULL,
    state       TEXT COLLATE "C" NOT NULL,
    reason      TEXT COLLATE "C",
    created_at  BIGINT NOT NULL,
    created_by  TEXT COLLATE "C" NOT NULL,
    updated_at  BIGINT NOT NULL,
    finished_at BIGINT
);
CREATE INDEX workflows_by_tenant ON workflows (tenant, created_at DESC, id DESC);
CREATE INDEX workflows_by_node ON workflows (node_id, created_at DESC, id DESC);

-- When a node's process last started again with nobody having asked for it, and the time before that.
ALTER TABLE node_facts ADD COLUMN started TEXT COLLATE "C";
ALTER TABLE node_facts ADD COLUMN restarted_at BIGINT;
ALTER TABLE node_facts ADD COLUMN restarted_before_at BIGINT;
CREATE INDEX node_facts_by_restart ON node_facts (restarted_before_at, node_id) WHERE restarted_before_at IS NOT NULL;

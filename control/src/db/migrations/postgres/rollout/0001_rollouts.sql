-- Releases, and rollouts that bring them to nodes. Times are milliseconds since 1970, shares are parts per million.

CREATE TABLE daemon_releases (
    id            TEXT COLLATE "C" PRIMARY KEY,
    version       TEXT COLLATE "C" NOT NULL UNIQUE,
    sequence      BIGINT NOT NULL UNIQUE,
    -- The exact bytes that were registered; they are verified again whenever they are read.
    published     BYTEA NOT NULL,
    registered_at BIGINT NOT NULL,
    registered_by TEXT COLLATE "C" NOT NULL
);

CREATE TABLE rollouts (
    id                TEXT COLLATE "C" PRIMARY KEY,
    tenant            TEXT COLLATE "C" NOT NULL,
    version           TEXT COLLATE "C" NOT NULL REFERENCES daemon_releases (version),
    state             TEXT COLLATE "C" NOT NULL,
    reason            TEXT COLLATE "C",
    -- Grows with every change. A plan names the revision that it was made from, and is refused under any other.
    revision          BIGINT NOT NULL DEFAULT 0,
    -- The current wave, from 0.
    wave              BIGINT NOT NULL,
    -- When the current wave's last node settled; its soak runs from there.
    wave_settled_at   BIGINT,
    -- What an operator accepted of the current wave by resuming: failures, and that nobody has tried the release.
    accepted_failures BIGINT NOT NULL DEFAULT 0,
    accepted_untried  BIGINT NOT NULL DEFAULT 0,
    max_failure_ppm   BIGINT NOT NULL,
    soak_ms           BIGINT NOT NULL,
    timeout_ms        BIGINT NOT NULL,
    -- Whether nodes or a selector narrowed it: then late nodes do not converge on it.
    narrowed          BIGINT NOT NULL,
    -- Whether nodes in maintenance take part.
    maintenance       BIGINT NOT NULL,
    created_at        BIGINT NOT NULL,
    created_by        TEXT COLLATE "C" NOT NULL,
    updated_at        BIGINT NOT NULL,
    finished_at       BIGINT
);
CREATE INDEX rollouts_by_tenant ON rollouts (tenant, created_at DESC, id DESC);
CREATE INDEX rollouts_active ON rollouts (id) WHERE state IN ('running', 'paused');

CREATE TABLE rollout_pools (
    rollout_id TEXT COLLATE "C" NOT NULL REFERENCES rollouts (id),
    pool_id    TEXT COLLATE "C" NOT NULL REFERENCES pools (id),
    PRIMARY KEY (pool_id, rollout_id)
);
CREATE INDEX rollout_pools_by_rollout ON rollout_pools (rollout_id, pool_id);

-- A wave and its nodes by state. Whoever moves a row moves the counters in the same transaction, so that nothing
-- ever counts rows.
CREATE TABLE rollout_waves (
    rollout_id   TEXT COLLATE "C" NOT NULL REFERENCES rollouts (id),
    wave         BIGINT NOT NULL,
    -- Cumulative, in parts per million of the snapshot.
    percent_ppm  BIGINT NOT NULL,
    -- How many were ever started: a wave that started nothing does not soak.
    started      BIGINT NOT NULL DEFAULT 0,
    pending      BIGINT NOT NULL DEFAULT 0,
    upgrading    BIGINT NOT NULL DEFAULT 0,
    succeeded    BIGINT NOT NULL DEFAULT 0,
    failed       BIGINT NOT NULL DEFAULT 0,
    skipped      BIGINT NOT NULL DEFAULT 0,
    rolling_back BIGINT NOT NULL DEFAULT 0,
    rolled_back  BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (rollout_id, wave)
);

CREATE TABLE rollout_nodes (
    rollout_id   TEXT COLLATE "C" NOT NULL REFERENCES rollouts (id),
    -- The node's place in the rollout's order, from 0.
    place        BIGINT NOT NULL,
    node_id      TEXT COLLATE "C" NOT NULL REFERENCES nodes (id),
    pool_id      TEXT COLLATE "C" NOT NULL,
    wave         BIGINT NOT NULL,
    state        TEXT COLLATE "C" NOT NULL,
    from_version TEXT COLLATE "C",
    attempt      TEXT COLLATE "C",
    started_at   BIGINT,
    -- When the flight that goes on has taken too long.
    deadline_at  BIGINT,
    finished_at  BIGINT,
    -- The reason as a word and as a sentence.
    error_code   TEXT COLLATE "C",
    error        TEXT COLLATE "C",
    PRIMARY KEY (rollout_id, place)
);
CREATE UNIQUE INDEX rollout_nodes_by_node ON rollout_nodes (node_id, rollout_id);
-- Every query of a pass names the state, so that it never reads the rows of the others.
CREATE INDEX rollout_nodes_by_state ON rollout_nodes (rollout_id, state, wave, place);

-- Nodes that rollouts pass over.
CREATE INDEX nodes_out_of_scope ON nodes (pool_id, id) WHERE removed_at IS NOT NULL OR maintenance = 1;

-- What one rollout holds of the pools' budgets, and who went away lately: both are read in every pass.
CREATE INDEX disruptions_by_reason ON disruptions (reason, node_id);
CREATE INDEX node_facts_by_presence ON node_facts (online, since, node_id);

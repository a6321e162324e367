-- Releases, and rollouts that bring them to nodes. Times are milliseconds since 1970, shares are parts per million.

CREATE TABLE daemon_releases (
    id            TEXT PRIMARY KEY,
    version       TEXT NOT NULL UNIQUE,
    sequence      INTEGER NOT NULL UNIQUE,
    -- The exact bytes that were registered; they are verified again whenever they are read.
    published     BLOB NOT NULL,
    registered_at INTEGER NOT NULL,
    registered_by TEXT NOT NULL
) STRICT;

CREATE TABLE rollouts (
    id                TEXT PRIMARY KEY,
    tenant            TEXT NOT NULL,
    version           TEXT NOT NULL REFERENCES daemon_releases (version),
    state             TEXT NOT NULL,
    reason            TEXT,
    -- Grows with every change. A plan names the revision that it was made from, and is refused under any other.
    revision          INTEGER NOT NULL DEFAULT 0,
    -- The current wave, from 0.
    wave              INTEGER NOT NULL,
    -- When the current wave's last node settled; its soak runs from there.
    wave_settled_at   INTEGER,
    -- What an operator accepted of the current wave by resuming: failures, and that nobody has tried the release.
    accepted_failures INTEGER NOT NULL DEFAULT 0,
    accepted_untried  INTEGER NOT NULL DEFAULT 0,
    max_failure_ppm   INTEGER NOT NULL,
    soak_ms           INTEGER NOT NULL,
    timeout_ms        INTEGER NOT NULL,
    -- Whether nodes or a selector narrowed it: then late nodes do not converge on it.
    narrowed          INTEGER NOT NULL,
    -- Whether nodes in maintenance take part.
    maintenance       INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    created_by        TEXT NOT NULL,
    updated_at        INTEGER NOT NULL,
    finished_at       INTEGER
) STRICT;
CREATE INDEX rollouts_by_tenant ON rollouts (tenant, created_at DESC, id DESC);
CREATE INDEX rollouts_active ON rollouts (id) WHERE state IN ('running', 'paused');

CREATE TABLE rollout_pools (
    rollout_id TEXT NOT NULL REFERENCES rollouts (id),
    pool_id    TEXT NOT NULL REFERENCES pools (id),
    PRIMARY KEY (pool_id, rollout_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX rollout_pools_by_rollout ON rollout_pools (rollout_id, pool_id);

-- A wave and its nodes by state. Whoever moves a row moves the counters in the same transaction, so that nothing
-- ever counts rows.
CREATE TABLE rollout_waves (
    rollout_id   TEXT NOT NULL REFERENCES rollouts (id),
    wave         INTEGER NOT NULL,
    -- Cumulative, in parts per million of the snapshot.
    percent_ppm  INTEGER NOT NULL,
    -- How many were ever started: a wave that started nothing does not soak.
    started      INTEGER NOT NULL DEFAULT 0,
    pending      INTEGER NOT NULL DEFAULT 0,
    upgrading    INTEGER NOT NULL DEFAULT 0,
    succeeded    INTEGER NOT NULL DEFAULT 0,
    failed       INTEGER NOT NULL DEFAULT 0,
    skipped      INTEGER NOT NULL DEFAULT 0,
    rolling_back INTEGER NOT NULL DEFAULT 0,
    rolled_back  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (rollout_id, wave)
) STRICT, WITHOUT ROWID;

CREATE TABLE rollout_nodes (
    rollout_id   TEXT NOT NULL REFERENCES rollouts (id),
    -- The node's place in the rollout's order, from 0.
    place        INTEGER NOT NULL,
    node_id      TEXT NOT NULL REFERENCES nodes (id),
    pool_id      TEXT NOT NULL,
    wave         INTEGER NOT NULL,
    state        TEXT NOT NULL,
    from_version TEXT,
    attempt      TEXT,
    started_at   INTEGER,
    -- When the flight that goes on has taken too long.
    deadline_at  INTEGER,
    finished_at  INTEGER,
    -- The reason as a word and as a sentence.
    error_code   TEXT,
    error        TEXT,
    PRIMARY KEY (rollout_id, place)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX rollout_nodes_by_node ON rollout_nodes (node_id, rollout_id);
-- Every query of a pass names the state, so that it never reads the rows of the others.
CREATE INDEX rollout_nodes_by_state ON rollout_nodes (rollout_id, state, wave, place);

-- Nodes that rollouts pass over.
CREATE INDEX nodes_out_of_scope ON nodes (pool_id, id) WHERE removed_at IS NOT NULL OR maintenance = 1;

-- What one rollout holds of the pools' budgets, and who went away lately: both are read in every pass.
CREATE INDEX disruptions_by_reason ON disruptions (reason, node_id);
CREATE INDEX node_facts_by_presence ON node_facts (online, since, node_id);

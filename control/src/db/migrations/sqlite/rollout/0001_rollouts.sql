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
    sequence          INTEGER NOT NULL,
    state             TEXT NOT NULL,
    reason            TEXT,
    -- Cumulative parts per million, a JSON list.
    waves             TEXT NOT NULL,
    wave              INTEGER NOT NULL,
    -- When the current wave's last node settled; its soak runs from there.
    wave_settled_at   INTEGER,
    -- Failures of the current wave that an operator accepted by resuming.
    accepted_failures INTEGER NOT NULL DEFAULT 0,
    max_failure_ppm   INTEGER NOT NULL,
    soak_ms           INTEGER NOT NULL,
    timeout_ms        INTEGER NOT NULL,
    -- Whether nodes or a selector narrowed it: then late nodes do not converge on it.
    narrowed          INTEGER NOT NULL,
    created_at        INTEGER NOT NULL,
    created_by        TEXT NOT NULL,
    updated_at        INTEGER NOT NULL,
    finished_at       INTEGER
) STRICT;
CREATE INDEX rollouts_by_tenant ON rollouts (tenant, created_at DESC, id);
CREATE INDEX rollouts_active ON rollouts (id) WHERE state IN ('running', 'paused');

CREATE TABLE rollout_pools (
    rollout_id TEXT NOT NULL REFERENCES rollouts (id),
    pool_id    TEXT NOT NULL REFERENCES pools (id),
    PRIMARY KEY (pool_id, rollout_id)
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
    finished_at  INTEGER,
    error        TEXT,
    PRIMARY KEY (rollout_id, place)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX rollout_nodes_by_node ON rollout_nodes (node_id, rollout_id);
CREATE INDEX rollout_nodes_in_flight ON rollout_nodes (node_id) WHERE state IN ('upgrading', 'rolling-back');

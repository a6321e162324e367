-- Pools, what joins them, and what nodes last said. Times are milliseconds since 1970, shares are parts per million.

CREATE TABLE pools (
    id          TEXT PRIMARY KEY,
    tenant      TEXT NOT NULL,
    name        TEXT NOT NULL,
    budget_ppm  INTEGER NOT NULL,
    -- Nodes that are not removed, and nodes with at least one row in disruptions. Whoever changes either
    -- set changes the counter in the same transaction.
    nodes       INTEGER NOT NULL DEFAULT 0,
    disrupted   INTEGER NOT NULL DEFAULT 0,
    created_at  INTEGER NOT NULL,
    archived_at INTEGER
) STRICT;
CREATE UNIQUE INDEX pools_by_name ON pools (tenant, name) WHERE archived_at IS NULL;

CREATE TABLE join_tokens (
    id            TEXT PRIMARY KEY,
    tenant        TEXT NOT NULL,
    pool_id       TEXT NOT NULL REFERENCES pools (id),
    secret_sha256 BLOB NOT NULL,
    uses_max      INTEGER NOT NULL,
    uses          INTEGER NOT NULL DEFAULT 0,
    expires_at    INTEGER NOT NULL,
    revoked_at    INTEGER,
    created_at    INTEGER NOT NULL,
    created_by    TEXT NOT NULL
) STRICT;

CREATE TABLE nodes (
    id             TEXT PRIMARY KEY,
    tenant         TEXT NOT NULL,
    pool_id        TEXT NOT NULL REFERENCES pools (id),
    join_token_id  TEXT NOT NULL REFERENCES join_tokens (id),
    -- The node's public key, SPKI DER. With the token it makes joining idempotent.
    spki           BLOB NOT NULL,
    labels         TEXT NOT NULL,
    maintenance    INTEGER NOT NULL DEFAULT 0,
    joined_at      INTEGER NOT NULL,
    removed_at     INTEGER,
    -- The newest spec's identity: generation grows when one of the three differs from what is computed.
    generation     INTEGER NOT NULL DEFAULT 1,
    spec_version   TEXT,
    spec_sha256    TEXT,
    spec_attempt   TEXT,
    -- The connection whose Hello the labels are from; those of an older one never replace them.
    labels_seq     INTEGER NOT NULL DEFAULT 0,
    -- The newest connection that is known to have ended: nothing that comes late brings it back.
    ended_seq      INTEGER NOT NULL DEFAULT 0,
    UNIQUE (join_token_id, spki)
) STRICT;
CREATE INDEX nodes_by_pool ON nodes (pool_id, id) WHERE removed_at IS NULL;

-- What a node last said: the whole facts as JSON, and beside them what is decided by.
CREATE TABLE node_facts (
    node_id             TEXT PRIMARY KEY REFERENCES nodes (id),
    connect_seq         INTEGER NOT NULL,
    report              INTEGER NOT NULL,
    session_id          TEXT NOT NULL,
    gateway_id          TEXT NOT NULL,
    -- The gateway's link on which the session was named last.
    link                INTEGER NOT NULL,
    upgrade_only        INTEGER NOT NULL,
    online              INTEGER NOT NULL,
    -- Since when it has been online, or offline.
    since               INTEGER NOT NULL,
    version             TEXT NOT NULL,
    sequence            INTEGER NOT NULL,
    digest              TEXT NOT NULL,
    floor               INTEGER NOT NULL,
    trial_attempt       TEXT,
    attempt_id          TEXT,
    attempt_outcome     TEXT,
    attempt_final       INTEGER,
    attempt_code        TEXT,
    attempt_message     TEXT,
    held                TEXT,
    observed_generation INTEGER NOT NULL,
    facts               TEXT NOT NULL,
    reported_at         INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX node_facts_by_gateway ON node_facts (gateway_id) WHERE online = 1;

-- Why a node is disrupted: a rollout's id or a workflow's. The place belongs to the node, however many reasons it has.
CREATE TABLE disruptions (
    node_id TEXT NOT NULL REFERENCES nodes (id),
    reason  TEXT NOT NULL,
    pool_id TEXT NOT NULL REFERENCES pools (id),
    since   INTEGER NOT NULL,
    PRIMARY KEY (node_id, reason)
) STRICT, WITHOUT ROWID;

CREATE TABLE gateways (
    id               TEXT PRIMARY KEY,
    name             TEXT NOT NULL UNIQUE,
    url              TEXT NOT NULL,
    token_sha256     BLOB NOT NULL,
    token_expires_at INTEGER NOT NULL,
    -- The key that redeemed the token, SPKI DER: the same key may redeem it again after a lost answer.
    spki             BLOB,
    enrolled_at      INTEGER,
    -- Counts its links; each session it names is marked with the number.
    link             INTEGER NOT NULL DEFAULT 0,
    linked           INTEGER NOT NULL DEFAULT 0,
    -- Since when it has been linked, or not.
    linked_since     INTEGER,
    created_at       INTEGER NOT NULL,
    created_by       TEXT NOT NULL
) STRICT;

CREATE TABLE api_tokens (
    id            TEXT PRIMARY KEY,
    tenant        TEXT NOT NULL,
    subject       TEXT NOT NULL,
    secret_sha256 BLOB NOT NULL,
    permissions   TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    revoked_at    INTEGER
) STRICT;

-- Numbers that transactions take in turn, such as the position of the next event.
CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,
    type     TEXT NOT NULL,
    subject  TEXT NOT NULL,
    tenant   TEXT NOT NULL,
    actor    TEXT NOT NULL,
    data     TEXT NOT NULL,
    at       INTEGER NOT NULL
) STRICT;

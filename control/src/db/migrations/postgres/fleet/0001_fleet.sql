-- Pools, what joins them, and what nodes last said. Times are milliseconds since 1970, shares are parts per million.

-- Texts compare by their bytes, as SQLite compares them. Facts and labels are texts that hold JSON; this reads one
-- value of such a text as SQLite's function of that name does.
CREATE FUNCTION json_extract(document TEXT, path TEXT) RETURNS TEXT
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT jsonb_path_query_first(document::jsonb, path::jsonpath) #>> '{}' $$;

CREATE TABLE pools (
    id          TEXT COLLATE "C" PRIMARY KEY,
    tenant      TEXT COLLATE "C" NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    budget_ppm  BIGINT NOT NULL,
    -- Nodes that are not removed, and nodes with at least one row in disruptions. Whoever changes either
    -- set changes the counter in the same transaction.
    nodes       BIGINT NOT NULL DEFAULT 0,
    disrupted   BIGINT NOT NULL DEFAULT 0,
    created_at  BIGINT NOT NULL,
    archived_at BIGINT
);
CREATE UNIQUE INDEX pools_by_name ON pools (tenant, name) WHERE archived_at IS NULL;

CREATE TABLE join_tokens (
    id            TEXT COLLATE "C" PRIMARY KEY,
    tenant        TEXT COLLATE "C" NOT NULL,
    pool_id       TEXT COLLATE "C" NOT NULL REFERENCES pools (id),
    secret_sha256 BYTEA NOT NULL,
    uses_max      BIGINT NOT NULL,
    uses          BIGINT NOT NULL DEFAULT 0,
    expires_at    BIGINT NOT NULL,
    revoked_at    BIGINT,
    created_at    BIGINT NOT NULL,
    created_by    TEXT COLLATE "C" NOT NULL
);

CREATE TABLE nodes (
    id             TEXT COLLATE "C" PRIMARY KEY,
    tenant         TEXT COLLATE "C" NOT NULL,
    pool_id        TEXT COLLATE "C" NOT NULL REFERENCES pools (id),
    join_token_id  TEXT COLLATE "C" NOT NULL REFERENCES join_tokens (id),
    -- The node's public key, SPKI DER. With the token it makes joining idempotent.
    spki           BYTEA NOT NULL,
    labels         TEXT COLLATE "C" NOT NULL,
    maintenance    BIGINT NOT NULL DEFAULT 0,
    joined_at      BIGINT NOT NULL,
    removed_at     BIGINT,
    -- The newest spec's identity: generation grows when one of the three differs from what is computed.
    generation     BIGINT NOT NULL DEFAULT 1,
    spec_version   TEXT COLLATE "C",
    spec_sha256    TEXT COLLATE "C",
    spec_attempt   TEXT COLLATE "C",
    -- The connection whose Hello the labels are from; those of an older one never replace them.
    labels_seq     BIGINT NOT NULL DEFAULT 0,
    -- The newest connection that is known to have ended: nothing that comes late brings it back.
    ended_seq      BIGINT NOT NULL DEFAULT 0,
    UNIQUE (join_token_id, spki)
);
CREATE INDEX nodes_by_pool ON nodes (pool_id, id) WHERE removed_at IS NULL;

-- What a node last said: the whole facts as JSON, and beside them what is decided by.
CREATE TABLE node_facts (
    node_id             TEXT COLLATE "C" PRIMARY KEY REFERENCES nodes (id),
    connect_seq         BIGINT NOT NULL,
    report              BIGINT NOT NULL,
    session_id          TEXT COLLATE "C" NOT NULL,
    gateway_id          TEXT COLLATE "C" NOT NULL,
    -- The gateway's link on which the session was named last.
    link                BIGINT NOT NULL,
    upgrade_only        BIGINT NOT NULL,
    online              BIGINT NOT NULL,
    -- Since when it has been online, or offline.
    since               BIGINT NOT NULL,
    version             TEXT COLLATE "C" NOT NULL,
    sequence            BIGINT NOT NULL,
    digest              TEXT COLLATE "C" NOT NULL,
    floor               BIGINT NOT NULL,
    trial_attempt       TEXT COLLATE "C",
    attempt_id          TEXT COLLATE "C",
    attempt_outcome     TEXT COLLATE "C",
    attempt_final       BIGINT,
    attempt_code        TEXT COLLATE "C",
    attempt_message     TEXT COLLATE "C",
    held                TEXT COLLATE "C",
    observed_generation BIGINT NOT NULL,
    facts               TEXT COLLATE "C" NOT NULL,
    reported_at         BIGINT NOT NULL
);
CREATE INDEX node_facts_by_gateway ON node_facts (gateway_id) WHERE online = 1;

-- Why a node is disrupted: a rollout's id or a workflow's. The place belongs to the node, however many reasons it has.
CREATE TABLE disruptions (
    node_id TEXT COLLATE "C" NOT NULL REFERENCES nodes (id),
    reason  TEXT COLLATE "C" NOT NULL,
    pool_id TEXT COLLATE "C" NOT NULL REFERENCES pools (id),
    since   BIGINT NOT NULL,
    PRIMARY KEY (node_id, reason)
);

CREATE TABLE gateways (
    id               TEXT COLLATE "C" PRIMARY KEY,
    name             TEXT COLLATE "C" NOT NULL UNIQUE,
    url              TEXT COLLATE "C" NOT NULL,
    token_sha256     BYTEA NOT NULL,
    token_expires_at BIGINT NOT NULL,
    -- The key that redeemed the token, SPKI DER: the same key may redeem it again after a lost answer.
    spki             BYTEA,
    enrolled_at      BIGINT,
    -- Counts its links; each session it names is marked with the number.
    link             BIGINT NOT NULL DEFAULT 0,
    linked           BIGINT NOT NULL DEFAULT 0,
    -- Since when it has been linked, or not.
    linked_since     BIGINT,
    created_at       BIGINT NOT NULL,
    created_by       TEXT COLLATE "C" NOT NULL
);

CREATE TABLE api_tokens (
    id            TEXT COLLATE "C" PRIMARY KEY,
    tenant        TEXT COLLATE "C" NOT NULL,
    subject       TEXT COLLATE "C" NOT NULL,
    secret_sha256 BYTEA NOT NULL,
    permissions   TEXT COLLATE "C" NOT NULL,
    created_at    BIGINT NOT NULL,
    revoked_at    BIGINT
);

-- Numbers that transactions take in turn, such as the position of the next event.
CREATE TABLE counters (
    name  TEXT COLLATE "C" PRIMARY KEY,
    value BIGINT NOT NULL
);

CREATE TABLE events (
    position BIGINT PRIMARY KEY,
    id       TEXT COLLATE "C" NOT NULL UNIQUE,
    type     TEXT COLLATE "C" NOT NULL,
    subject  TEXT COLLATE "C" NOT NULL,
    tenant   TEXT COLLATE "C" NOT NULL,
    actor    TEXT COLLATE "C" NOT NULL,
    data     TEXT COLLATE "C" NOT NULL,
    at       BIGINT NOT NULL
);

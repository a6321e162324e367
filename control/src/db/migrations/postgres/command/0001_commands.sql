-- What nodes are to do once. Times are milliseconds since 1970.

CREATE TABLE commands (
    id            TEXT COLLATE "C" PRIMARY KEY,
    -- Its place among all commands: a node does its own in this order, lane by lane.
    number        BIGINT NOT NULL UNIQUE,
    tenant        TEXT COLLATE "C" NOT NULL,
    node_id       TEXT COLLATE "C" NOT NULL REFERENCES nodes (id),
    kind          TEXT COLLATE "C" NOT NULL,
    lane          TEXT COLLATE "C" NOT NULL,
    payload       TEXT COLLATE "C" NOT NULL,
    idempotency   TEXT COLLATE "C" NOT NULL,
    state         TEXT COLLATE "C" NOT NULL,
    expires_at    BIGINT NOT NULL,
    -- When time alone ends it: pending, it expires; dispatched, it has taken too long.
    due_at        BIGINT NOT NULL,
    -- The start of the daemon that it was dispatched to: another one shows that it has restarted.
    started       TEXT COLLATE "C",
    dispatched_at BIGINT,
    finished_at   BIGINT,
    -- The reason against it as a word, and a sentence about its end.
    code          TEXT COLLATE "C",
    message       TEXT COLLATE "C",
    report        BYTEA,
    created_at    BIGINT NOT NULL,
    created_by    TEXT COLLATE "C" NOT NULL,
    UNIQUE (node_id, idempotency)
);
CREATE INDEX commands_by_tenant ON commands (tenant, number);
CREATE INDEX commands_by_node ON commands (node_id, number);
-- What is open is little, and everything that happens asks for it.
CREATE INDEX commands_open ON commands (node_id, number) WHERE state IN ('pending', 'dispatched');
CREATE INDEX commands_due ON commands (due_at) WHERE state IN ('pending', 'dispatched');
CREATE INDEX commands_open_upgrades ON commands (node_id)
    WHERE kind = 'daemon.upgrade' AND state IN ('pending', 'dispatched');
-- One of a lane at a time, whoever dispatches.
CREATE UNIQUE INDEX commands_in_flight ON commands (node_id, lane) WHERE state = 'dispatched';

-- What nodes are to do once. Times are milliseconds since 1970.

CREATE TABLE commands (
    id            TEXT PRIMARY KEY,
    -- Its place among all commands: a node does its own in this order, lane by lane.
    number        INTEGER NOT NULL UNIQUE,
    tenant        TEXT NOT NULL,
    node_id       TEXT NOT NULL REFERENCES nodes (id),
    kind          TEXT NOT NULL,
    lane          TEXT NOT NULL,
    payload       TEXT NOT NULL,
    idempotency   TEXT NOT NULL,
    state         TEXT NOT NULL,
    expires_at    INTEGER NOT NULL,
    -- When time alone ends it: pending, it expires; dispatched, it has taken too long.
    due_at        INTEGER NOT NULL,
    -- The start of the daemon that it was dispatched to: another one shows that it has restarted.
    started       TEXT,
    dispatched_at INTEGER,
    finished_at   INTEGER,
    -- The reason against it as a word, and a sentence about its end.
    code          TEXT,
    message       TEXT,
    report        BLOB,
    created_at    INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    UNIQUE (node_id, idempotency)
) STRICT;
CREATE INDEX commands_by_tenant ON commands (tenant, number);
CREATE INDEX commands_by_node ON commands (node_id, number);
-- What is open is little, and everything that happens asks for it.
CREATE INDEX commands_open ON commands (node_id, number) WHERE state IN ('pending', 'dispatched');
CREATE INDEX commands_due ON commands (due_at) WHERE state IN ('pending', 'dispatched');
CREATE INDEX commands_open_upgrades ON commands (node_id)
    WHERE kind = 'daemon.upgrade' AND state IN ('pending', 'dispatched');
-- One of a lane at a time, whoever dispatches.
CREATE UNIQUE INDEX commands_in_flight ON commands (node_id, lane) WHERE state = 'dispatched';

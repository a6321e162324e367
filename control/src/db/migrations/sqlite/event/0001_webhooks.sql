-- Events are read by tenant from a position on, and by what they are about.
CREATE INDEX events_by_tenant ON events (tenant, position);
CREATE INDEX events_by_subject ON events (subject, position);

CREATE TABLE webhooks (
    id         TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    url        TEXT NOT NULL,
    -- What messages are signed with; the receiver has the same, so a digest would not do.
    secret     BLOB NOT NULL,
    -- Types of events, as a JSON list; empty is all.
    types      TEXT NOT NULL,
    -- Events up to this position have their deliveries.
    position   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    deleted_at INTEGER
) STRICT;
CREATE INDEX webhooks_by_tenant ON webhooks (tenant, id) WHERE deleted_at IS NULL;

CREATE TABLE webhook_deliveries (
    webhook_id  TEXT NOT NULL REFERENCES webhooks (id),
    position    INTEGER NOT NULL REFERENCES events (position),
    state       TEXT NOT NULL,
    -- Attempts that have begun.
    attempts    INTEGER NOT NULL DEFAULT 0,
    -- When the next attempt is due. While one is under way, when it is taken for lost.
    due_at      INTEGER NOT NULL,
    last_status INTEGER,
    last_error  TEXT,
    updated_at  INTEGER NOT NULL,
    PRIMARY KEY (webhook_id, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, due_at, position) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_done ON webhook_deliveries (updated_at) WHERE state <> 'pending';

-- Nodes whose last attempt ended with a refusal: few, and looked at with every scrape.
CREATE INDEX node_facts_refusing ON node_facts (node_id) WHERE attempt_outcome = 'refused';

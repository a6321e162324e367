-- Events are read by tenant from a position on, and by what they are about.
CREATE INDEX events_by_tenant ON events (tenant, position);
CREATE INDEX events_by_subject ON events (subject, position);

CREATE TABLE webhooks (
    id         TEXT COLLATE "C" PRIMARY KEY,
    tenant     TEXT COLLATE "C" NOT NULL,
    url        TEXT COLLATE "C" NOT NULL,
    -- What messages are signed with; the receiver has the same, so a digest would not do.
    secret     BYTEA NOT NULL,
    -- Types of events, as a JSON list; empty is all.
    types      TEXT COLLATE "C" NOT NULL,
    -- Events up to this position have their deliveries.
    position   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT COLLATE "C" NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX webhooks_by_tenant ON webhooks (tenant, id) WHERE deleted_at IS NULL;

CREATE TABLE webhook_deliveries (
    webhook_id  TEXT COLLATE "C" NOT NULL REFERENCES webhooks (id),
    position    BIGINT NOT NULL REFERENCES events (position),
    state       TEXT COLLATE "C" NOT NULL,
    -- Attempts that have begun.
    attempts    BIGINT NOT NULL DEFAULT 0,
    -- When the next attempt is due. While one is under way, when it is taken for lost.
    due_at      BIGINT NOT NULL,
    last_status BIGINT,
    last_error  TEXT COLLATE "C",
    updated_at  BIGINT NOT NULL,
    PRIMARY KEY (webhook_id, position)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, due_at, position) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_done ON webhook_deliveries (updated_at) WHERE state <> 'pending';

-- Nodes whose last attempt ended with a refusal: few, and looked at with every scrape.
CREATE INDEX node_facts_refusing ON node_facts (node_id) WHERE attempt_outcome = 'refused';

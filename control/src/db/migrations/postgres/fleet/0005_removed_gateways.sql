-- Gateways that were removed. Their rows are gone, so that nothing can take them for gateways; this is what is left, for
-- processes that have not heard of it and for whoever removes one twice.
CREATE TABLE removed_gateways (
    id         TEXT COLLATE "C" PRIMARY KEY,
    name       TEXT NOT NULL,
    removed_at BIGINT NOT NULL
);

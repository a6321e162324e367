-- Control processes that run, and when each was seen last, by the database's own clock.
CREATE TABLE processes (
    id      TEXT COLLATE "C" PRIMARY KEY,
    seen_at BIGINT NOT NULL
);

-- Whose link it is. The links of a process that is gone are over, whatever their rows say.
ALTER TABLE gateways ADD COLUMN process TEXT COLLATE "C";

-- Who was removed lately is asked again and again.
CREATE INDEX nodes_by_removal ON nodes (removed_at) WHERE removed_at IS NOT NULL;

-- What all processes of one database have to agree on.
CREATE TABLE agreements (
    name  TEXT COLLATE "C" PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL
);

-- The server's clock, in seconds, under the name that SQLite has for it.
CREATE FUNCTION unixepoch(modifier TEXT) RETURNS DOUBLE PRECISION
    LANGUAGE sql VOLATILE
    AS $$ SELECT extract(epoch FROM clock_timestamp())::double precision $$;

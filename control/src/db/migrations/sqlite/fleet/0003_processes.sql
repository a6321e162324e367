-- Control processes that run, and when each was seen last, by the database's own clock.
CREATE TABLE processes (
    id      TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Whose link it is. The links of a process that is gone are over, whatever their rows say.
ALTER TABLE gateways ADD COLUMN process TEXT;

-- Who was removed lately is asked again and again.
CREATE INDEX nodes_by_removal ON nodes (removed_at) WHERE removed_at IS NOT NULL;

-- What all processes of one database have to agree on.
CREATE TABLE agreements (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

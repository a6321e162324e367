-- The start of the daemon before the one that is known: one that comes back after another is a second daemon with the same
-- credential, and people are told of that now and then.
ALTER TABLE node_facts ADD COLUMN started_before TEXT;
ALTER TABLE node_facts ADD COLUMN duplicate_told_at INTEGER;

-- Failed nodes of a wave by what went wrong. Whoever fails a row moves the counter in the same transaction, so that no pass
-- counts rows.

CREATE TABLE rollout_troubles (
    rollout INTEGER NOT NULL,
    wave    INTEGER NOT NULL,
    code    TEXT NOT NULL,
    nodes   INTEGER NOT NULL,
    PRIMARY KEY (rollout, wave, code)
) STRICT, WITHOUT ROWID;
INSERT INTO rollout_troubles (rollout, wave, code, nodes)
SELECT r.rollout, r.wave, coalesce(h.error_code, 'failed'), count(*)
FROM rollout_rows r LEFT JOIN rollout_notes h ON h.rollout = r.rollout AND h.node = r.node
WHERE r.state = 'failed' GROUP BY r.rollout, r.wave, coalesce(h.error_code, 'failed');

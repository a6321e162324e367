-- Failed nodes of a wave by what went wrong. Whoever fails a row moves the counter in the same transaction, so that no pass
-- counts rows.

CREATE TABLE rollout_troubles (
    rollout BIGINT NOT NULL,
    wave    BIGINT NOT NULL,
    code    TEXT COLLATE "C" NOT NULL,
    nodes   BIGINT NOT NULL,
    PRIMARY KEY (rollout, wave, code)
);
INSERT INTO rollout_troubles (rollout, wave, code, nodes)
SELECT r.rollout, r.wave, coalesce(h.error_code, 'failed'), count(*)
FROM rollout_rows r LEFT JOIN rollout_notes h ON h.rollout = r.rollout AND h.node = r.node
WHERE r.state = 'failed' GROUP BY r.rollout, r.wave, coalesce(h.error_code, 'failed');

-- Without STRICT, the planner sees through it and nothing is planned anew whenever it runs.
CREATE OR REPLACE FUNCTION json_each(document TEXT) RETURNS TABLE (value TEXT)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 100
    AS $$ SELECT e.value FROM jsonb_array_elements_text(document::jsonb) AS e (value) $$;

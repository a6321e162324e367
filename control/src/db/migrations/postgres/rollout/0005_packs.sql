-- Whoever waits for his turn in a new rollout stands in a pack: an index of all of them would be written in an order that
-- is none, and cost more than the rows. A pack is opened when somebody of it starts, and its nodes are in the index then.

CREATE TABLE rollout_packs (
    rollout BIGINT NOT NULL,
    wave    BIGINT NOT NULL,
    pool    BIGINT NOT NULL,
    -- Its first node's.
    place   BIGINT NOT NULL,
    -- Numbers of nodes in the rollout's order, as a JSON list. Some may wait no more.
    nodes   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (rollout, wave, pool, place)
);

-- Whether the node stands in a pack that was not opened.
ALTER TABLE rollout_rows ADD COLUMN packed BIGINT NOT NULL DEFAULT 0;

DROP INDEX rollout_rows_waiting;
CREATE INDEX rollout_rows_waiting ON rollout_rows (rollout, wave, pool, place, node)
    WHERE state = 'pending' AND packed = 0;

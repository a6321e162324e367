-- Whose turn it is in a wave, by pool: a pass reads as many as may start, and not everybody who waits.
CREATE INDEX rollout_nodes_waiting ON rollout_nodes (rollout_id, wave, pool_id, place, node_id) WHERE state = 'pending';

-- Why a rollout had paused when it was aborted: the abort has a reason of its own.
ALTER TABLE rollouts ADD COLUMN paused_reason TEXT;

-- When an API token stops working, where it does, and when it was last used: to within an hour, so that a call is no write.
ALTER TABLE api_tokens ADD COLUMN expires_at BIGINT;
ALTER TABLE api_tokens ADD COLUMN last_used_at BIGINT;

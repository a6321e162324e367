-- Sessions of people who signed in to the console with an API token. Times are milliseconds since 1970.

CREATE TABLE console_sessions (
    -- The digest of what the browser keeps; what it keeps itself is stored nowhere.
    secret_sha256 BYTEA PRIMARY KEY,
    -- A session lasts no longer than its token.
    token_id      TEXT COLLATE "C" NOT NULL REFERENCES api_tokens (id),
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL
);
CREATE INDEX console_sessions_by_token ON console_sessions (token_id, created_at);
CREATE INDEX console_sessions_by_expiry ON console_sessions (expires_at);

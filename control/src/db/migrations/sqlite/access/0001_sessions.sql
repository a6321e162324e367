-- Sessions of people who signed in to the console with an API token. Times are milliseconds since 1970.

CREATE TABLE console_sessions (
    -- The digest of what the browser keeps; what it keeps itself is stored nowhere.
    secret_sha256 BLOB PRIMARY KEY,
    -- A session lasts no longer than its token.
    token_id      TEXT NOT NULL REFERENCES api_tokens (id),
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX console_sessions_by_token ON console_sessions (token_id, created_at);
CREATE INDEX console_sessions_by_expiry ON console_sessions (expires_at);

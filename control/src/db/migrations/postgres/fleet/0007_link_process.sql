-- Which process of a gateway has its link: another one with the same certificate is a copy, and people are told of that now
-- and then.
ALTER TABLE gateways ADD COLUMN link_process BYTEA;
ALTER TABLE gateways ADD COLUMN duplicate_told_at BIGINT;

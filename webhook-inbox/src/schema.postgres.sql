-- Creates the tables, and expands those of version 1 while its programs still run.
-- Times are milliseconds since 1970, in UTC: to_timestamp(received_at / 1000.0) shows one.
CREATE TABLE IF NOT EXISTS webhook_inbox (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key         text NOT NULL UNIQUE,  -- scope, service, event and the delivery's id
    scope       text,                  -- the tenant
    service     text NOT NULL,
    event       text NOT NULL,
    body        bytea NOT NULL,        -- empty once it was handled, unless bodies are kept
    received_at bigint NOT NULL,
    status      text NOT NULL DEFAULT 'pending',  -- or 'done', or 'dead'
    due_at      bigint NOT NULL DEFAULT 0,
    attempts    bigint NOT NULL DEFAULT 0,
    token       bigint NOT NULL DEFAULT 0,  -- increases with each claim
    error       text,
    ended_at    bigint
);
ALTER TABLE webhook_inbox
    ADD COLUMN IF NOT EXISTS owner bigint,  -- the worker that handles it
    ADD COLUMN IF NOT EXISTS crashes bigint NOT NULL DEFAULT 0,  -- how many of its workers have vanished
    ADD COLUMN IF NOT EXISTS delay bigint NOT NULL DEFAULT 0,  -- how long before due_at that was set
    -- It was checked anew for each statement, at a seventh of what the statement costs.
    DROP CONSTRAINT IF EXISTS webhook_inbox_status_check;
ALTER TABLE webhook_inbox SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
-- First what was never tried, then retries, then what is tried alone because its worker has vanished.
CREATE INDEX IF NOT EXISTS webhook_inbox_waits ON webhook_inbox (
    (CASE WHEN crashes > 0 THEN 2 WHEN delay > 0 THEN 1 ELSE 0 END), coalesce(scope, ''), due_at, id
) WHERE status = 'pending' AND owner IS NULL;
CREATE INDEX IF NOT EXISTS webhook_inbox_owner ON webhook_inbox (owner) WHERE owner IS NOT NULL;
CREATE INDEX IF NOT EXISTS webhook_inbox_ended ON webhook_inbox (status, ended_at) WHERE status <> 'pending';
CREATE INDEX IF NOT EXISTS webhook_inbox_scope ON webhook_inbox (scope) WHERE scope IS NOT NULL;
-- Workers that run. One whose beat stands still for its lease, in milliseconds, has vanished.
CREATE TABLE IF NOT EXISTS webhook_inbox_workers (id bigint PRIMARY KEY, beat bigint NOT NULL, lease bigint NOT NULL);
-- The scopes whose deliveries wait.
CREATE TABLE IF NOT EXISTS webhook_inbox_paused (scope text PRIMARY KEY);
-- The oldest version of the statements that can use these tables, and the newest.
CREATE TABLE IF NOT EXISTS webhook_inbox_schema (version bigint NOT NULL);
INSERT INTO webhook_inbox_schema SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM webhook_inbox_schema);
CREATE TABLE IF NOT EXISTS webhook_inbox_expanded (version bigint NOT NULL);
INSERT INTO webhook_inbox_expanded SELECT 2 WHERE NOT EXISTS (SELECT 1 FROM webhook_inbox_expanded);

-- Times are milliseconds since 1970, in UTC: to_timestamp(received_at / 1000.0) shows one.
CREATE TABLE IF NOT EXISTS webhook_inbox (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key         text NOT NULL UNIQUE,  -- scope, service, event and the delivery's id
    scope       text,
    service     text NOT NULL,
    event       text NOT NULL,
    body        bytea NOT NULL,
    received_at bigint NOT NULL,
    status      text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'done', 'dead')),
    due_at      bigint NOT NULL DEFAULT 0,  -- the end of the claim while a worker handles it
    attempts    bigint NOT NULL DEFAULT 0,
    token       bigint NOT NULL DEFAULT 0,  -- increases with each claim
    error       text,
    ended_at    bigint
);
CREATE INDEX IF NOT EXISTS webhook_inbox_due ON webhook_inbox (due_at, id) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS webhook_inbox_ended ON webhook_inbox (status, ended_at) WHERE status <> 'pending';
CREATE TABLE IF NOT EXISTS webhook_inbox_schema (version bigint NOT NULL);
INSERT INTO webhook_inbox_schema SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM webhook_inbox_schema);

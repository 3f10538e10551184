CREATE TABLE IF NOT EXISTS webhook_inbox (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key         text NOT NULL UNIQUE,  -- scope, service, event and the delivery's id
    scope       text,
    service     text NOT NULL CHECK (service IN ('extraction', 'email')),
    event       text NOT NULL,
    body        bytea NOT NULL,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    status      text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'done', 'dead')),
    due_at      timestamptz NOT NULL DEFAULT clock_timestamp(),  -- the end of the lease while a worker handles it
    attempts    integer NOT NULL DEFAULT 0,
    token       bigint NOT NULL DEFAULT 0,  -- increases with each claim
    error       text,
    ended_at    timestamptz
);
CREATE INDEX IF NOT EXISTS webhook_inbox_due ON webhook_inbox (due_at, id) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS webhook_inbox_ended ON webhook_inbox (status, ended_at) WHERE status <> 'pending';

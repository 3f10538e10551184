-- Times are milliseconds since 1970, in UTC.
CREATE TABLE IF NOT EXISTS webhook_inbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    key         TEXT NOT NULL UNIQUE,  -- scope, service, event and the delivery's id
    scope       TEXT,
    service     TEXT NOT NULL CHECK (service IN ('extraction', 'email')),
    event       TEXT NOT NULL,
    body        BLOB NOT NULL,
    received_at INTEGER NOT NULL,
    status      TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'done', 'dead')),
    due_at      INTEGER NOT NULL,  -- the end of the lease while a worker handles it
    attempts    INTEGER NOT NULL DEFAULT 0,
    token       INTEGER NOT NULL DEFAULT 0,  -- increases with each claim
    error       TEXT,
    ended_at    INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS webhook_inbox_due ON webhook_inbox (due_at, id) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS webhook_inbox_ended ON webhook_inbox (status, ended_at) WHERE status <> 'pending';

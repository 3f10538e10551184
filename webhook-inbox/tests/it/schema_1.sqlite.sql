-- Times are milliseconds since 1970, in UTC: datetime(received_at / 1000, 'unixepoch') shows one.
CREATE TABLE IF NOT EXISTS webhook_inbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    key         TEXT NOT NULL UNIQUE,  -- scope, service, event and the delivery's id
    scope       TEXT,
    service     TEXT NOT NULL,
    event       TEXT NOT NULL,
    body        BLOB NOT NULL,
    received_at INTEGER NOT NULL,
    status      TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'done', 'dead')),
    due_at      INTEGER NOT NULL DEFAULT 0,  -- the end of the claim while a worker handles it
    attempts    INTEGER NOT NULL DEFAULT 0,
    token       INTEGER NOT NULL DEFAULT 0,  -- increases with each claim
    error       TEXT,
    ended_at    INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS webhook_inbox_due ON webhook_inbox (due_at, id) WHERE status = 'pending';
CREATE INDEX IF NOT EXISTS webhook_inbox_ended ON webhook_inbox (status, ended_at) WHERE status <> 'pending';
CREATE TABLE IF NOT EXISTS webhook_inbox_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO webhook_inbox_schema SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM webhook_inbox_schema);

-- Times are milliseconds since 1970, in UTC: datetime(received_at / 1000, 'unixepoch') shows one.
CREATE TABLE IF NOT EXISTS webhook_inbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    key         TEXT NOT NULL UNIQUE,  -- scope, service, event and the delivery's id
    scope       TEXT,                  -- the tenant
    service     TEXT NOT NULL,
    event       TEXT NOT NULL,
    body        BLOB NOT NULL,         -- empty once it was handled, unless bodies are kept
    received_at INTEGER NOT NULL,
    status      TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'done', 'dead')),
    due_at      INTEGER NOT NULL DEFAULT 0,
    attempts    INTEGER NOT NULL DEFAULT 0,
    token       INTEGER NOT NULL DEFAULT 0,  -- increases with each claim
    error       TEXT,
    ended_at    INTEGER,
    owner       INTEGER,                     -- the worker that handles it
    crashes     INTEGER NOT NULL DEFAULT 0,  -- how many of its workers have vanished
    delay       INTEGER NOT NULL DEFAULT 0   -- how long before due_at that was set
) STRICT;
-- First what was never tried, then retries, then what is tried alone because its worker has vanished.
CREATE INDEX IF NOT EXISTS webhook_inbox_waits ON webhook_inbox (
    (CASE WHEN crashes > 0 THEN 2 WHEN delay > 0 THEN 1 ELSE 0 END), coalesce(scope, ''), due_at, id
) WHERE status = 'pending' AND owner IS NULL;
CREATE INDEX IF NOT EXISTS webhook_inbox_owner ON webhook_inbox (owner) WHERE owner IS NOT NULL;
CREATE INDEX IF NOT EXISTS webhook_inbox_ended ON webhook_inbox (status, ended_at) WHERE status <> 'pending';
CREATE INDEX IF NOT EXISTS webhook_inbox_scope ON webhook_inbox (scope) WHERE scope IS NOT NULL;
-- Workers that run. One whose beat stands still for its lease, in milliseconds, has vanished.
CREATE TABLE IF NOT EXISTS webhook_inbox_workers (id INTEGER PRIMARY KEY, beat INTEGER NOT NULL, lease INTEGER NOT NULL) STRICT;
-- The scopes whose deliveries wait.
CREATE TABLE IF NOT EXISTS webhook_inbox_paused (scope TEXT PRIMARY KEY) STRICT;
-- The oldest version of the statements that can use these tables, and the newest.
CREATE TABLE IF NOT EXISTS webhook_inbox_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO webhook_inbox_schema SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM webhook_inbox_schema);
CREATE TABLE IF NOT EXISTS webhook_inbox_expanded (version INTEGER NOT NULL) STRICT;
INSERT INTO webhook_inbox_expanded SELECT 2 WHERE NOT EXISTS (SELECT 1 FROM webhook_inbox_expanded);

-- Times are milliseconds since 1970, in UTC.
CREATE TABLE IF NOT EXISTS bulk_sends (
    send         INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    state        TEXT NOT NULL DEFAULT 'draft' CHECK (state IN ('draft', 'running', 'paused', 'cancelled')),
    email        TEXT,                          -- the identity of the email; none if it does not count
    label        TEXT NOT NULL,
    settings     TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    changed_at   INTEGER NOT NULL,
    space        INTEGER NOT NULL DEFAULT 0,    -- microseconds between two emails
    not_before   INTEGER NOT NULL DEFAULT 0,    -- in microseconds: no request starts earlier
    run          INTEGER NOT NULL DEFAULT 1,    -- increases when it is resumed
    streak       INTEGER NOT NULL DEFAULT 0,    -- refusals in a row for one cause
    streak_cause TEXT,
    paused_cause TEXT,                          -- set if a refusal has paused it
    code         TEXT,
    message      TEXT
);
CREATE TABLE IF NOT EXISTS bulk_rows (
    send    INTEGER NOT NULL REFERENCES bulk_sends,
    number  INTEGER NOT NULL,
    status  TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN
        ('waiting', 'held', 'in_flight', 'accepted', 'refused', 'invalid', 'unknown', 'left_out')),
    address TEXT NOT NULL,
    person  BLOB NOT NULL,                      -- a keyed hash of the address, empty if there is none
    data    TEXT NOT NULL,
    request TEXT,                               -- while held, in flight or unknown
    again   INTEGER NOT NULL DEFAULT 0,         -- 1 if an earlier request may have sent it
    run     INTEGER NOT NULL DEFAULT 0,         -- in which it was refused
    at      INTEGER,
    id      TEXT,
    code    TEXT,
    message TEXT,
    cause   TEXT,
    final   TEXT,                               -- the final status of the email, and why
    reason  TEXT,
    PRIMARY KEY (send, number)
);
CREATE INDEX IF NOT EXISTS bulk_rows_status ON bulk_rows (send, status, number);
CREATE INDEX IF NOT EXISTS bulk_rows_request ON bulk_rows (request) WHERE request IS NOT NULL;
CREATE INDEX IF NOT EXISTS bulk_rows_person ON bulk_rows (person);
CREATE TABLE IF NOT EXISTS bulk_requests (
    id      TEXT PRIMARY KEY,                   -- also its idempotency key
    send    INTEGER NOT NULL,
    worker  TEXT NOT NULL,
    state   TEXT NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'in_flight', 'unknown')),
    keyed   INTEGER NOT NULL DEFAULT 0,         -- 1 if it may be repeated with its key
    sent_at INTEGER NOT NULL DEFAULT 0,
    claim   TEXT,                               -- by which it was taken over to repeat it
    tried   INTEGER NOT NULL DEFAULT 0          -- the last run in which it was tried in vain
);
CREATE INDEX IF NOT EXISTS bulk_requests_send ON bulk_requests (send, state);
CREATE INDEX IF NOT EXISTS bulk_requests_worker ON bulk_requests (worker);
CREATE TABLE IF NOT EXISTS bulk_workers (
    id          TEXT PRIMARY KEY,
    send        INTEGER NOT NULL,
    lease_until INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS bulk_files (
    send    INTEGER NOT NULL,
    name    TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (send, name)
);
CREATE TABLE IF NOT EXISTS bulk_emails (
    email TEXT PRIMARY KEY,
    label TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS bulk_sent (
    email  TEXT NOT NULL,
    person BLOB NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (email, person)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bulk_ledger (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

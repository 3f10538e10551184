-- For both databases, which call the types `{key}` and `{bytes}` differently.
-- Times are milliseconds since 1970, in UTC.
CREATE TABLE IF NOT EXISTS bulk_sends (
    send         {key},
    id           text NOT NULL UNIQUE,
    state        text NOT NULL DEFAULT 'draft' CHECK (state IN ('draft', 'running', 'paused', 'cancelled')),
    email        text,                          -- the identity of the email; none if it does not count
    label        text NOT NULL,
    settings     text NOT NULL,
    created_at   bigint NOT NULL,
    changed_at   bigint NOT NULL,
    space        bigint NOT NULL DEFAULT 0,    -- microseconds between two emails
    not_before   bigint NOT NULL DEFAULT 0,    -- in microseconds: no request starts earlier
    run          bigint NOT NULL DEFAULT 1,    -- increases when it is resumed
    streak       bigint NOT NULL DEFAULT 0,    -- refusals in a row for one cause
    streak_cause text,
    paused_cause text,                          -- set if a refusal has paused it
    code         text,
    message      text
);
CREATE TABLE IF NOT EXISTS bulk_rows (
    send    bigint NOT NULL REFERENCES bulk_sends,
    number  bigint NOT NULL,
    status  text NOT NULL DEFAULT 'waiting' CHECK (status IN
        ('waiting', 'held', 'in_flight', 'accepted', 'refused', 'invalid', 'unknown', 'left_out')),
    address text NOT NULL,
    person  {bytes} NOT NULL,                   -- a keyed hash of the address, empty if there is none
    data    text NOT NULL,
    request text,                               -- while held, in flight or unknown
    again   bigint NOT NULL DEFAULT 0,         -- 1 if an earlier request may have sent it
    run     bigint NOT NULL DEFAULT 0,         -- in which it was refused
    at      bigint,
    id      text,
    code    text,
    message text,
    cause   text,
    final   text,                               -- the final status of the email, and why
    reason  text,
    PRIMARY KEY (send, number)
);
CREATE INDEX IF NOT EXISTS bulk_rows_status ON bulk_rows (send, status, number);
CREATE INDEX IF NOT EXISTS bulk_rows_request ON bulk_rows (request) WHERE request IS NOT NULL;
CREATE INDEX IF NOT EXISTS bulk_rows_person ON bulk_rows (person);
CREATE TABLE IF NOT EXISTS bulk_requests (
    id      text PRIMARY KEY,                   -- also its idempotency key
    send    bigint NOT NULL,
    worker  text NOT NULL,
    state   text NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'in_flight', 'unknown')),
    keyed   bigint NOT NULL DEFAULT 0,         -- 1 if it may be repeated with its key
    sent_at bigint NOT NULL DEFAULT 0,
    claim   text,                               -- by which it was taken over to repeat it
    tried   bigint NOT NULL DEFAULT 0          -- the last run in which it was repeated in vain
);
CREATE INDEX IF NOT EXISTS bulk_requests_send ON bulk_requests (send, state);
CREATE INDEX IF NOT EXISTS bulk_requests_worker ON bulk_requests (worker);
CREATE TABLE IF NOT EXISTS bulk_workers (
    id          text PRIMARY KEY,
    send        bigint NOT NULL,
    lease_until bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS bulk_files (
    send    bigint NOT NULL,
    name    text NOT NULL,
    content {bytes} NOT NULL,
    PRIMARY KEY (send, name)
);
CREATE TABLE IF NOT EXISTS bulk_emails (
    email text PRIMARY KEY,
    label text NOT NULL
);
CREATE TABLE IF NOT EXISTS bulk_sent (
    email  text NOT NULL,
    person {bytes} NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (email, person)
);
CREATE TABLE IF NOT EXISTS bulk_ledger (
    name  text PRIMARY KEY,
    value text NOT NULL
);

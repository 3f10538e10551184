-- Times are integer milliseconds since the Unix epoch (UTC), by the server's clock.
-- Ids are UUIDv7 with a prefix, so they sort by creation. Lists read no large values, except that of
-- the templates, which reads one after the other. `data` is the whole row as JSON; beside it are the
-- columns that statements use. Tables whose rows take more than a twentieth of a page have a row
-- number: without it, the inner pages of the tree would hold whole rows, a few each.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The other tables refer to an organization by its number, which is never used again.
CREATE TABLE organization (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    balance_cents INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- Only the hash of a key is stored, and its first characters.
CREATE TABLE api_key (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    hash BLOB NOT NULL UNIQUE,
    data TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audience (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    data TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE contact (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    audience TEXT NOT NULL REFERENCES audience ON DELETE CASCADE,
    -- Its address in normalized form, for uniqueness.
    email_key TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX contact_audience ON contact (audience, id);
CREATE UNIQUE INDEX contact_email ON contact (audience, email_key);

CREATE TABLE domain (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    selector TEXT NOT NULL,
    dkim_private BLOB NOT NULL,
    data TEXT NOT NULL,
    name TEXT NOT NULL AS (data ->> 'name') STORED,
    verified INTEGER NOT NULL AS (data ->> 'verified') STORED
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX domain_name ON domain (name, organization);

-- Records published in the built-in DNS zone. `owner` is the id of the domain that published the
-- record. The domain may have been deleted since: DNS records outlive it.
CREATE TABLE dns_record (
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    domain TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (owner, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX dns_record_domain ON dns_record (domain);

CREATE TABLE template (
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    id TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (organization, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE email (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX email_organization ON email (organization, id);

CREATE TABLE email_content (
    email TEXT PRIMARY KEY REFERENCES email ON DELETE CASCADE,
    headers TEXT NOT NULL,
    attachments TEXT NOT NULL,
    html TEXT,
    text TEXT
) STRICT;

CREATE TABLE email_attachment (
    email TEXT NOT NULL REFERENCES email ON DELETE CASCADE,
    position INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (email, position)
) STRICT;

-- Bytes that several rows refer to, stored once: the sources of received messages, and the large
-- parts of the bodies of deliveries.
CREATE TABLE body (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- SHA-256 of `bytes`.
    digest BLOB NOT NULL UNIQUE,
    bytes BLOB NOT NULL
) STRICT;

-- Delivered messages, one for each recipient. An outgoing message is rendered from its `email` when
-- it is read; a received one has its source, and in `text` its words. `domain` is the verified domain
-- whose mailbox it is in, `authentication` what SPF and DKIM found, as JSON.
CREATE TABLE message (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    recipient TEXT NOT NULL COLLATE NOCASE,
    email TEXT REFERENCES email ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    domain TEXT REFERENCES domain ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    data TEXT NOT NULL,
    authentication TEXT,
    text TEXT,
    source INTEGER REFERENCES body
) STRICT;
CREATE INDEX message_organization ON message (organization, id);
CREATE INDEX message_recipient ON message (organization, recipient, id);
CREATE INDEX message_email ON message (email) WHERE email IS NOT NULL;
CREATE INDEX message_received ON message (organization, id) WHERE email IS NULL;
CREATE INDEX message_source ON message (source) WHERE source IS NOT NULL;

CREATE TABLE webhook (
    id TEXT NOT NULL,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    data TEXT NOT NULL,
    service TEXT NOT NULL AS (data ->> 'service') STORED,
    active INTEGER NOT NULL AS (data ->> 'active') STORED,
    events TEXT NOT NULL AS (data ->> 'events') STORED,
    PRIMARY KEY (organization, id)
) STRICT, WITHOUT ROWID;

-- One event for one webhook, which may have been deleted since. In `data` it is as it was when it was
-- stored. The bytes of its body are `head`, the shared bytes and `tail`, in this order. `email` is the
-- email that the event is about.
CREATE TABLE delivery (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    webhook TEXT NOT NULL,
    event TEXT NOT NULL,
    email TEXT REFERENCES email ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    data TEXT NOT NULL,
    head BLOB NOT NULL,
    shared INTEGER REFERENCES body,
    tail BLOB NOT NULL
) STRICT;
CREATE INDEX delivery_organization ON delivery (organization, id);
CREATE INDEX delivery_email ON delivery (email, id) WHERE email IS NOT NULL;
CREATE INDEX delivery_shared ON delivery (shared) WHERE shared IS NOT NULL;

CREATE TABLE attempt (
    delivery TEXT NOT NULL REFERENCES delivery ON DELETE CASCADE,
    number INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (delivery, number)
) STRICT;

-- Work that is due at a time of the server's clock (see `store/jobs.rs`). Jobs of one queue with the
-- same lane are done one after the other, in the order of their subjects: `due_at` is NULL while a
-- job waits for one before it. `attempt` is the number of attempts so far.
CREATE TABLE job (
    queue TEXT NOT NULL,
    subject TEXT NOT NULL,
    position INTEGER NOT NULL,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    lane TEXT,
    due_at INTEGER,
    attempt INTEGER NOT NULL,
    -- The positions of the recipients whose message the relay may have, as a JSON array.
    handed_over TEXT,
    PRIMARY KEY (queue, subject, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_due ON job (queue, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX job_lane ON job (queue, lane) WHERE lane IS NOT NULL;

-- The first response to each `Idempotency-Key`.
CREATE TABLE idempotency (
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    service TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    status INTEGER NOT NULL,
    body BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (organization, service, key)
) STRICT;

-- Injected faults: `skip` and `times` are the requests still to be skipped and to be hit.
CREATE TABLE fault (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    data TEXT NOT NULL,
    skip INTEGER NOT NULL AS (coalesce(data ->> 'skip', 0) - skipped),
    times INTEGER NOT NULL AS (data ->> 'remaining'),
    skipped INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- Bytes that nothing refers to any more are deleted.
CREATE TRIGGER message_body AFTER DELETE ON message WHEN OLD.source IS NOT NULL BEGIN
    DELETE FROM body WHERE id = OLD.source
        AND NOT EXISTS (SELECT 1 FROM message WHERE source = OLD.source)
        AND NOT EXISTS (SELECT 1 FROM delivery WHERE shared = OLD.source);
END;
CREATE TRIGGER delivery_body AFTER DELETE ON delivery WHEN OLD.shared IS NOT NULL BEGIN
    DELETE FROM body WHERE id = OLD.shared
        AND NOT EXISTS (SELECT 1 FROM message WHERE source = OLD.shared)
        AND NOT EXISTS (SELECT 1 FROM delivery WHERE shared = OLD.shared);
END;

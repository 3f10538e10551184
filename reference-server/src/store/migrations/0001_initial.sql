-- Times are integer milliseconds since the Unix epoch (UTC), by the server's clock.
-- Large values are stored in separate tables, so that list queries do not read them.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE organization (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    balance_cents INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX organization_name ON organization (name);

-- Only the hash of a key is stored; `hint` is the key's first characters.
CREATE TABLE api_key (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL,
    service TEXT NOT NULL,
    scopes TEXT NOT NULL,
    mode TEXT NOT NULL,
    hint TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX api_key_organization ON api_key (organization, id);

CREATE TABLE audience (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL,
    name TEXT NOT NULL,
    contacts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX audience_organization ON audience (organization, id);

CREATE TABLE contact (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL,
    audience TEXT NOT NULL,
    email TEXT NOT NULL,
    -- Normalized form of `email`, for uniqueness.
    email_key TEXT NOT NULL,
    name TEXT,
    metadata TEXT NOT NULL,
    topics TEXT NOT NULL,
    subscribed INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX contact_audience ON contact (audience, id);
CREATE UNIQUE INDEX contact_email ON contact (audience, email_key);
CREATE INDEX contact_organization ON contact (organization);

CREATE TABLE domain (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL,
    name TEXT NOT NULL,
    dkim_selector TEXT NOT NULL,
    dkim_private BLOB NOT NULL,
    dkim_public TEXT NOT NULL,
    mx_verified INTEGER NOT NULL,
    spf_verified INTEGER NOT NULL,
    dkim_verified INTEGER NOT NULL,
    dmarc_verified INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX domain_organization ON domain (organization, id);
CREATE UNIQUE INDEX domain_name ON domain (name, organization);

-- Records published in the built-in DNS zone. `owner` is the id of the domain that
-- published the record. The domain may have been deleted since: DNS records outlive it.
CREATE TABLE dns_record (
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    organization INTEGER NOT NULL,
    domain TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    priority INTEGER,
    PRIMARY KEY (owner, kind)
) STRICT, WITHOUT ROWID;
CREATE INDEX dns_record_domain ON dns_record (organization, domain);

CREATE TABLE template (
    organization INTEGER NOT NULL,
    id TEXT NOT NULL,
    subject TEXT,
    html TEXT,
    text TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (organization, id)
) STRICT, WITHOUT ROWID;

-- `meta` is the accepted request as JSON. `recipients` is the state of each recipient,
-- NULL until the first state change. `due_at` refers to the email's row in `due`.
CREATE TABLE email (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL,
    status TEXT NOT NULL,
    last_event TEXT,
    scheduled_at INTEGER,
    due_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    meta TEXT NOT NULL,
    recipients TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX email_organization ON email (organization);

CREATE TABLE email_content (
    email TEXT PRIMARY KEY,
    html TEXT,
    text TEXT,
    headers TEXT,
    attachments TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE email_attachment (
    email TEXT NOT NULL,
    position INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (email, position)
) STRICT;

-- The targets of the links of a tracked email, so that a click reads one row.
CREATE TABLE email_link (
    email TEXT NOT NULL,
    number INTEGER NOT NULL,
    url TEXT NOT NULL,
    PRIMARY KEY (email, number)
) STRICT, WITHOUT ROWID;

-- Delivered messages, one row per recipient. The source of an outgoing message is
-- rendered from its email on demand; the source of an incoming message is the row `body` of
-- its `message_source`. `domain` is the verified domain that received the message.
CREATE TABLE message (
    organization INTEGER NOT NULL,
    id TEXT NOT NULL,
    recipient TEXT NOT NULL COLLATE NOCASE,
    email TEXT,
    domain TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (organization, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_recipient ON message (organization, recipient, id);
CREATE INDEX message_domain ON message (domain) WHERE domain IS NOT NULL;

CREATE TABLE message_source (
    message TEXT PRIMARY KEY,
    sender TEXT NOT NULL,
    subject TEXT NOT NULL,
    body INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX message_source_body ON message_source (body);

-- Bytes that several rows refer to, stored once: the sources of received messages, and the
-- large parts of delivery bodies. A row that no other row refers to any more is deleted.
CREATE TABLE body (
    -- An id is never used again: deliveries in progress may still have the bytes of a
    -- deleted row.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- SHA-256 of `bytes`.
    digest BLOB NOT NULL UNIQUE,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE webhook (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL,
    service TEXT NOT NULL,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    active INTEGER NOT NULL,
    secret TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_organization ON webhook (organization, service, id);

-- `retry` is the number of scheduled attempts made so far. `due_at` is the time of the
-- next attempt, NULL if there is none.
CREATE TABLE delivery (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL,
    webhook TEXT NOT NULL,
    service TEXT NOT NULL,
    event TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    retry INTEGER NOT NULL,
    due_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_due ON delivery (webhook, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX delivery_organization ON delivery (organization, id);
-- For the lists of deliveries by webhook, by event and by state.
CREATE INDEX delivery_webhook ON delivery (webhook, id);
CREATE INDEX delivery_event ON delivery (organization, event, id);
CREATE INDEX delivery_state ON delivery (organization, state, id) WHERE state <> 'delivered';

-- The bytes of a delivery are `body`, the shared bytes, and `tail`, in this order.
CREATE TABLE delivery_body (
    delivery TEXT PRIMARY KEY,
    body BLOB NOT NULL,
    shared INTEGER,
    tail BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_body_shared ON delivery_body (shared) WHERE shared IS NOT NULL;

-- Events with deliveries that have not been written yet: those to the webhooks whose ids
-- are after `after`, up to `last`. `data` follows the shared bytes.
CREATE TABLE pending_event (
    organization INTEGER NOT NULL,
    id TEXT NOT NULL,
    event TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    shared INTEGER,
    data BLOB NOT NULL,
    after TEXT NOT NULL,
    last TEXT NOT NULL,
    PRIMARY KEY (organization, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX pending_event_shared ON pending_event (shared) WHERE shared IS NOT NULL;

CREATE TABLE attempt (
    delivery TEXT NOT NULL,
    number INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    url TEXT NOT NULL,
    request_headers TEXT NOT NULL,
    status INTEGER,
    response_body BLOB,
    error TEXT,
    PRIMARY KEY (delivery, number)
) STRICT, WITHOUT ROWID;

-- Emails with recipients that have not been handed over to the relay yet.
CREATE TABLE relay (
    email TEXT PRIMARY KEY,
    organization INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    retry INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX relay_due ON relay (due_at);

-- Scheduled work other than webhook deliveries: 1 sends an email, 2 delivers to the
-- recipient at `position`.
CREATE TABLE due (
    at INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    email TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (at, kind, email, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX due_recipient ON due (email) WHERE kind = 2;

CREATE TABLE idempotency (
    organization INTEGER NOT NULL,
    service TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    status INTEGER NOT NULL,
    body BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (organization, service, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expires ON idempotency (expires_at);

-- Injected faults: `definition` is the request that created the fault, as JSON; `skip` and
-- `times` are the requests still to be skipped and still to be hit.
CREATE TABLE fault (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL,
    definition TEXT NOT NULL,
    skip INTEGER NOT NULL,
    times INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX fault_organization ON fault (organization, id);

-- Requests that hit a fault.
CREATE TABLE fault_hit (
    seq INTEGER PRIMARY KEY,
    fault TEXT NOT NULL,
    at INTEGER NOT NULL,
    operation TEXT NOT NULL
) STRICT;
CREATE INDEX fault_hit_fault ON fault_hit (fault, seq);

-- Messages delivered to a domain that is verified on this server, for which
-- `email.received` has not been emitted yet.
CREATE TABLE local_delivery (
    message TEXT PRIMARY KEY,
    organization INTEGER NOT NULL,
    is_set_aside INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX local_delivery_waiting ON local_delivery (is_set_aside, message);

-- What was deleted, but still has rows in other tables, which are removed in slices: 1 the
-- pending deliveries of a webhook, 2 the contacts of an audience, 3 the messages of a domain,
-- 4 all rows of an organization, by its number.
CREATE TABLE deleted (
    kind INTEGER NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

-- Background jobs during which a server ended, or that met a defect of it. After three
-- times, a job is set aside.
CREATE TABLE crash (
    kind TEXT NOT NULL,
    job TEXT NOT NULL,
    crashes INTEGER NOT NULL,
    PRIMARY KEY (kind, job)
) STRICT, WITHOUT ROWID;

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

-- The sources so far are unique: their ids serve as digests.
INSERT INTO body (id, digest, bytes)
    SELECT rowid, CAST(message AS BLOB), source FROM message_source;
CREATE TABLE new_message_source (
    message TEXT PRIMARY KEY,
    sender TEXT NOT NULL,
    subject TEXT NOT NULL,
    body INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO new_message_source SELECT message, sender, subject, rowid FROM message_source;
DROP TABLE message_source;
ALTER TABLE new_message_source RENAME TO message_source;
CREATE INDEX message_source_body ON message_source (body);

-- The bytes of a delivery are `body`, the shared bytes, and `tail`, in this order.
ALTER TABLE delivery_body ADD COLUMN shared INTEGER;
ALTER TABLE delivery_body ADD COLUMN tail BLOB;
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

-- The targets of the links of a tracked email, so that a click reads one row.
CREATE TABLE email_link (
    email TEXT NOT NULL,
    number INTEGER NOT NULL,
    url TEXT NOT NULL,
    PRIMARY KEY (email, number)
) STRICT, WITHOUT ROWID;

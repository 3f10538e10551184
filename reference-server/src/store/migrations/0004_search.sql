-- What SPF, DKIM and DMARC found, as JSON. NULL for a message that was not checked.
ALTER TABLE message ADD COLUMN authentication TEXT;

-- The messages that the index for searches by sender and subject has: those of an organization up
-- to one, oldest first. The rest is added after a search that has to read many messages, so that
-- the index costs nothing while messages are stored.
CREATE TABLE message_indexed (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    organization INTEGER NOT NULL,
    message TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX message_indexed_message ON message_indexed (organization, message);

-- The groups of three characters in sender and subject, by the number of the message.
CREATE VIRTUAL TABLE message_words USING fts5 (
    words, content = '', contentless_delete = 1, detail = none,
    tokenize = 'trigram case_sensitive 1'
);

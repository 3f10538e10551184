-- Large values, in pieces that are stored before the transaction that refers to them. `is_kept` is 0
-- until then.
CREATE TABLE large (
    -- An id is never used again: who reads a deleted value must not get another one.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- In bytes.
    size INTEGER NOT NULL,
    is_kept INTEGER NOT NULL
) STRICT;
CREATE INDEX large_staged ON large (id) WHERE is_kept = 0;

CREATE TABLE piece (
    large INTEGER NOT NULL,
    number INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (large, number)
) STRICT;

-- The large parts of the content of an email, instead of the columns for them: -1 is `html`, -2 is
-- `text`, and others are the attachment at this position.
CREATE TABLE email_large (
    email TEXT NOT NULL,
    part INTEGER NOT NULL,
    large INTEGER NOT NULL,
    PRIMARY KEY (email, part)
) STRICT, WITHOUT ROWID;

-- The large value that `bytes` is instead.
ALTER TABLE body ADD COLUMN large INTEGER;

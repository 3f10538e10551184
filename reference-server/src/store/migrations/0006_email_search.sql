-- The index for searches of emails by address, subject and tag, like that of messages.
CREATE TABLE email_indexed (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    organization INTEGER NOT NULL,
    email TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX email_indexed_email ON email_indexed (organization, email);

CREATE VIRTUAL TABLE email_words USING fts5 (
    words, content = '', contentless_delete = 1, detail = none,
    tokenize = 'trigram case_sensitive 1'
);

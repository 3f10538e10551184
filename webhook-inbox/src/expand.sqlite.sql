-- Expands the tables of version 1 while its programs still run.
ALTER TABLE webhook_inbox ADD COLUMN owner INTEGER;
ALTER TABLE webhook_inbox ADD COLUMN crashes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE webhook_inbox ADD COLUMN delay INTEGER NOT NULL DEFAULT 0;

-- What happened to an email, as JSON: time, status, event and recipient of each change. NULL for
-- one that has not changed since it was accepted.
ALTER TABLE email ADD COLUMN history TEXT;
-- For the list of emails by status.
CREATE INDEX email_status ON email (organization, status, id) WHERE status <> 'delivered';

-- The email that a delivery is about.
ALTER TABLE delivery ADD COLUMN email TEXT;
CREATE INDEX delivery_email ON delivery (email, id) WHERE email IS NOT NULL;
ALTER TABLE pending_event ADD COLUMN email TEXT;

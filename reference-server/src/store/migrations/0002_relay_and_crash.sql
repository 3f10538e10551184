-- The positions of the recipients whose message may be at the relay, as a JSON array: it is
-- stored before the relay gets the end of the message, and removed with the outcomes.
ALTER TABLE relay ADD COLUMN handed_over TEXT;

-- The organization of the job, so that a reset of the organization removes the row; NULL for a
-- message received over SMTP.
ALTER TABLE crash ADD COLUMN organization INTEGER;

INSERT INTO bulk_emails (email, label) SELECT email, label FROM bulk_sends WHERE send = $1 AND state <> 'draft'
ON CONFLICT (email) DO NOTHING

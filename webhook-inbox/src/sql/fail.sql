-- Ends the failed claim $2 of the row $1: the row has the status $3, is due after $4, and has the error $5.
-- If $6 is 1, the attempt does not count.
UPDATE webhook_inbox SET status = $3, due_at = $4 + now_ms(), delay = $4, error = $5, attempts = attempts - $6,
    token = token + 1, owner = NULL, ended_at = CASE WHEN $3 = 'dead' THEN now_ms() END
WHERE id = $1 AND token = $2 AND status = 'pending'

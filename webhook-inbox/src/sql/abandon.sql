-- Gives back what the worker $1 held, which has vanished. The attempt counts only for a row that was tried
-- alone. A row that a transaction has locked is still being handled.
UPDATE webhook_inbox SET owner = NULL, token = token + 1, due_at = 0, crashes = crashes + 1,
    attempts = CASE WHEN crashes = 0 THEN attempts - 1 ELSE attempts END
WHERE id IN (SELECT id FROM webhook_inbox WHERE owner = $1 AND status = 'pending' FOR UPDATE SKIP LOCKED)

-- Gives back what the worker $1 holds, but for some rows. Their attempts do not count.
UPDATE webhook_inbox SET owner = NULL, token = token + 1, attempts = attempts - 1, due_at = 0
WHERE id IN (
    SELECT id FROM webhook_inbox WHERE owner = $1 AND status = 'pending' AND id NOT IN ({held}) FOR UPDATE SKIP LOCKED
)

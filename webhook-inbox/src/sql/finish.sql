-- Ends the claim $2 of the delivery $1. A handler's transaction begins with it: it locks the row until the
-- commit.
UPDATE webhook_inbox SET status = 'done', owner = NULL, error = NULL, ended_at = now_ms(), body = {body}
WHERE id = $1 AND token = $2 AND status = 'pending' RETURNING id

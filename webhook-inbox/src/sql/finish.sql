-- Ends the claim $2 of the delivery $1, whose body is $4 unless it is kept ($3). A handler's transaction
-- begins with it: it locks the row until the commit.
UPDATE webhook_inbox SET status = 'done', owner = NULL, error = NULL, ended_at = now_ms(),
    body = CASE WHEN $3 = 1 THEN body ELSE $4 END
WHERE id = $1 AND token = $2 AND status = 'pending'

UPDATE bulk_sends SET state = 'running', settings = $2, created_at = now_ms(), changed_at = now_ms()
WHERE send = $1 AND state = 'draft'

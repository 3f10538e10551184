-- A delivery whose worker has vanished.
SELECT id FROM webhook_inbox WHERE status = 'pending' AND owner IS NULL AND {place} = 2 AND due_at <= now_ms()
AND coalesce(scope, '') NOT IN (SELECT scope FROM webhook_inbox_paused)
ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED

-- Deletes what was handled longer ago than $1, up to a thousand deliveries and 16 MB of them.
DELETE FROM webhook_inbox WHERE id IN (
    SELECT id FROM (
        SELECT id, sum(length(body)) OVER (ORDER BY ended_at, id) - length(body) AS before FROM (
            SELECT id, ended_at, body FROM webhook_inbox WHERE status = 'done' AND ended_at <= now_ms() - $1
            ORDER BY ended_at, id LIMIT 1000
        ) old
    ) sized WHERE before < 16000000
)

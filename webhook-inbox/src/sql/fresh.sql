-- The deliveries that a tenant gives in its turn. One that was accepted within the last second may be committed
-- later than one after it.
SELECT id FROM (
    SELECT id FROM webhook_inbox
    WHERE status = 'pending' AND owner IS NULL AND {place} = 0 AND coalesce(scope, '') = {tenant} AND due_at <= now_ms()
    AND (due_at, id) > (
        CASE WHEN {due_at} < now_ms() - 1000 THEN {due_at} ELSE now_ms() - 1000 END,
        CASE WHEN {due_at} < now_ms() - 1000 THEN {id} ELSE 0 END
    )
    ORDER BY due_at, id LIMIT {quota} FOR UPDATE SKIP LOCKED
) fresh

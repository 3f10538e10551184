-- The deliveries that a tenant gives in its turn. Retries that are due come first, because they are due now
-- and not when all that is older was handled; they take half of the turn at most. A delivery that was accepted
-- within the last second may be committed later than one after it.
SELECT id FROM (
    SELECT id FROM (
        SELECT id FROM webhook_inbox
        WHERE status = 'pending' AND owner IS NULL AND crashes = 0 AND coalesce(scope, '') = {tenant} AND due_at <= now_ms() AND delay > 0
        ORDER BY due_at, id LIMIT {retries} FOR UPDATE SKIP LOCKED
    ) retries
    UNION ALL
    SELECT id FROM (
        SELECT id FROM webhook_inbox
        WHERE status = 'pending' AND owner IS NULL AND crashes = 0 AND coalesce(scope, '') = {tenant} AND due_at <= now_ms() AND delay = 0
        AND (due_at, id) > (
            CASE WHEN {due_at} < now_ms() - 1000 THEN {due_at} ELSE now_ms() - 1000 END,
            CASE WHEN {due_at} < now_ms() - 1000 THEN {id} ELSE 0 END
        )
        ORDER BY due_at, id LIMIT {quota} FOR UPDATE SKIP LOCKED
    ) fresh
    LIMIT {quota}
) turn

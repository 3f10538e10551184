-- The retries of a tenant come first in its turn, because they are due now and not when all that is older
-- was handled. They take half of the turn at most.
SELECT id FROM (
    SELECT id FROM webhook_inbox
    WHERE status = 'pending' AND owner IS NULL AND {place} = 1 AND coalesce(scope, '') = {tenant} AND due_at <= now_ms()
    ORDER BY due_at, id LIMIT {retries} FOR UPDATE SKIP LOCKED
) retries

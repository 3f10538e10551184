-- Finds the tenants whose deliveries are due, with an index probe for each; who is paused; and whether a
-- delivery is due that is tried alone. It only reads, so that an idle worker takes no write lock of SQLite.
WITH RECURSIVE tenants (tenant) AS (
    SELECT min(coalesce(scope, '')) FROM webhook_inbox WHERE status = 'pending' AND owner IS NULL AND crashes = 0
    UNION ALL
    SELECT (SELECT min(coalesce(scope, '')) FROM webhook_inbox WHERE status = 'pending' AND owner IS NULL AND crashes = 0 AND coalesce(scope, '') > tenant)
    FROM tenants WHERE tenant IS NOT NULL
)
SELECT 'due', tenant FROM tenants WHERE EXISTS (
    SELECT 1 FROM webhook_inbox WHERE status = 'pending' AND owner IS NULL AND crashes = 0 AND coalesce(scope, '') = tenant AND due_at <= now_ms()
) AND tenant NOT IN (SELECT scope FROM webhook_inbox_paused)
UNION ALL SELECT 'paused', scope FROM webhook_inbox_paused
UNION ALL SELECT 'alone', '' WHERE EXISTS (SELECT 1 FROM webhook_inbox WHERE status = 'pending' AND owner IS NULL AND crashes > 0 AND due_at <= now_ms()
    AND coalesce(scope, '') NOT IN (SELECT scope FROM webhook_inbox_paused))

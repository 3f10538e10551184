-- Finds the tenants whose deliveries are due, with an index probe for each; who is paused; and whether a
-- delivery is due that is tried alone. It only reads, so that an idle worker takes no write lock of SQLite.
WITH RECURSIVE tenants (place, tenant) AS (
    SELECT places.place, (
        SELECT min(coalesce(scope, '')) FROM webhook_inbox WHERE status = 'pending' AND owner IS NULL AND {place} = places.place
    ) FROM (SELECT 0 AS place UNION ALL SELECT 1 UNION ALL SELECT 2) places
    UNION ALL
    SELECT place, (
        SELECT min(coalesce(scope, '')) FROM webhook_inbox WHERE status = 'pending' AND owner IS NULL AND {place} = tenants.place AND coalesce(scope, '') > tenant
    ) FROM tenants WHERE tenant IS NOT NULL
)
SELECT CASE place WHEN 0 THEN 'fresh' WHEN 1 THEN 'retries' ELSE 'alone' END, tenant FROM tenants WHERE EXISTS (
    SELECT 1 FROM webhook_inbox WHERE status = 'pending' AND owner IS NULL AND {place} = tenants.place AND coalesce(scope, '') = tenant AND due_at <= now_ms()
) AND tenant NOT IN (SELECT scope FROM webhook_inbox_paused)
UNION ALL SELECT 'paused', scope FROM webhook_inbox_paused

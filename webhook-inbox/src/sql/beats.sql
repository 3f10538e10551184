-- All workers, also those that only rows name: they get the lease $1.
SELECT id, beat, lease FROM webhook_inbox_workers UNION ALL
SELECT DISTINCT owner, 0, $1 FROM webhook_inbox WHERE owner IS NOT NULL AND status = 'pending' AND owner NOT IN (SELECT id FROM webhook_inbox_workers)

-- A request whose outcome is unknown, and that the service does not process twice.
WITH due AS MATERIALIZED (
    SELECT id FROM bulk_requests WHERE send = $1 AND state = 'unknown' AND keyed = 1 AND tried < $3
    AND sent_at > now_ms() - $4 ORDER BY sent_at LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE bulk_requests SET state = 'in_flight', worker = $2, tried = $3, claim = $5
WHERE id IN (SELECT id FROM due) RETURNING id

-- The send with the id $1, or without an id all that are no drafts.
SELECT s.send, s.id, CASE s.state WHEN 'draft' THEN 'paused' ELSE s.state END, s.created_at, s.changed_at,
    s.email, s.settings, CASE WHEN s.state = 'paused' AND s.paused_cause IS NOT NULL THEN 1 ELSE 0 END, s.code, s.message,
    (SELECT count(*) FROM bulk_workers w WHERE w.send = s.send AND w.lease_until > now_ms())
FROM bulk_sends s WHERE s.id = $1 OR ($1 IS NULL AND s.state <> 'draft') ORDER BY s.created_at, s.send

SELECT coalesce(scope, ''), sum(CASE WHEN status = 'pending' THEN 1 ELSE 0 END),
    now_ms() - min(CASE WHEN status = 'pending' THEN received_at ELSE now_ms() END),
    sum(CASE WHEN status = 'dead' THEN 1 ELSE 0 END)
FROM webhook_inbox WHERE status IN ('pending', 'dead') GROUP BY coalesce(scope, '') ORDER BY 1

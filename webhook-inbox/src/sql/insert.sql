INSERT INTO webhook_inbox (key, scope, service, event, body, received_at, due_at)
VALUES ($1, $2, $3, $4, $5, now_ms(), now_ms()) ON CONFLICT DO NOTHING

-- Removes the worker $1, if it holds nothing.
DELETE FROM webhook_inbox_workers WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM webhook_inbox WHERE owner = $1 AND status = 'pending')

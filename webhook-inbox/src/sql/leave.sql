-- Removes the worker $1, if it holds nothing.
DELETE FROM {workers} WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM {rows} WHERE owner = $1 AND status = 'pending')

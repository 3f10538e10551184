-- How many deliveries the worker $1 holds.
SELECT count(*) FROM webhook_inbox WHERE owner = $1 AND status = 'pending'

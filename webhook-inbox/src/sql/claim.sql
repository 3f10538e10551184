-- Claims rows for the worker $1. $2 is the time limit of an attempt: version 1 takes over at due_at.
-- Without MATERIALIZED, the query may run several times, and claim more.
WITH claimed (id) AS MATERIALIZED ({ids})
UPDATE webhook_inbox SET owner = $1, token = token + 1, attempts = attempts + 1, due_at = $2 + now_ms()
WHERE id IN (SELECT id FROM claimed) RETURNING {columns}

-- Shows that the worker $1 with the lease $2 runs. A beat of 1 is its first, or the first since others took
-- it for dead.
INSERT INTO webhook_inbox_workers (id, beat, lease) VALUES ($1, 1, $2)
ON CONFLICT (id) DO UPDATE SET beat = webhook_inbox_workers.beat + 1 RETURNING beat, now_ms()

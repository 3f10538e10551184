-- Makes rows due whose time was set by a clock that was ahead of the present one. In version 1, a row with
-- attempts and without a delay is a claim.
UPDATE webhook_inbox SET due_at = 0
WHERE status = 'pending' AND owner IS NULL AND (attempts = 0 OR delay > 0) AND due_at - delay > 1000 + now_ms()

-- Sets the state $2, but for sends that are cancelled, and drafts.
UPDATE bulk_sends SET state = $2, paused_cause = NULL, streak = 0, streak_cause = NULL,
    run = CASE WHEN $2 = 'running' THEN run + 1 ELSE run END
WHERE send = $1 AND (state IN ('running', 'paused') OR state = $2)

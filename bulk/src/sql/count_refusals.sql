UPDATE bulk_sends SET streak = CASE WHEN streak_cause = $2 THEN streak + $3 ELSE $3 END, streak_cause = $2
WHERE send = $1 RETURNING streak, CASE WHEN paused_cause = $2 THEN 1 ELSE 0 END

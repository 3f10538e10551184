UPDATE bulk_sends SET state = 'paused', paused_cause = $2, code = $3, message = $4
WHERE send = $1 AND state <> 'cancelled'

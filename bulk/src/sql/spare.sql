-- The rows that were refused for the cause $2 in this run wait again.
UPDATE bulk_rows SET status = 'waiting', code = NULL, message = NULL, cause = NULL
WHERE send = $1 AND status = 'refused' AND cause = $2 AND run = (SELECT run FROM bulk_sends WHERE send = $1)

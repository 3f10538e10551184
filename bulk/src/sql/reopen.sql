-- Makes rows from $2 to $3 wait again that have the status $4.
UPDATE bulk_rows SET again = CASE WHEN status = 'unknown' THEN 1 ELSE again END,
    status = 'waiting', request = NULL, code = NULL, message = NULL, cause = NULL
WHERE send = $1 AND number BETWEEN $2 AND $3 AND status = $4 AND status IN ('refused', 'invalid', 'unknown')

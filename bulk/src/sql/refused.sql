UPDATE bulk_rows SET status = 'refused', request = NULL, code = $4, message = $5, cause = $6, at = now_ms(),
    run = (SELECT run FROM bulk_sends WHERE send = $1)
WHERE send = $1 AND number = $2 AND request = $3

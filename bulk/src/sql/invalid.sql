UPDATE bulk_rows SET status = 'invalid', request = NULL, message = $3, at = now_ms()
WHERE send = $1 AND number = $2 AND status = 'held'

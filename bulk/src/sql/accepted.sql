UPDATE bulk_rows SET status = 'accepted', id = $4, request = NULL, code = NULL, message = NULL, at = now_ms()
WHERE send = $1 AND number = $2 AND request = $3

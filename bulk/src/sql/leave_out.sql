UPDATE bulk_rows SET status = 'left_out', data = '', code = $3, message = $4, at = now_ms()
WHERE send = $1 AND number = $2 AND status = 'waiting'

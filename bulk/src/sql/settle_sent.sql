UPDATE bulk_rows SET status = 'accepted', request = NULL, code = NULL, message = 'settled by hand', at = now_ms()
WHERE send = $1 AND number BETWEEN $2 AND $3 AND status = $4

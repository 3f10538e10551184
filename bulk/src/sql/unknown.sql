UPDATE bulk_requests SET state = 'unknown', tried = (SELECT run FROM bulk_sends WHERE send = $3)
WHERE id = $1 AND worker = $2 AND state = 'in_flight'

SELECT count(*), coalesce(max(m.at), 0) FROM bulk_rows n CROSS JOIN bulk_sent m
WHERE n.send = $1 AND n.status = 'waiting' AND m.email = $2 AND m.person = n.person

INSERT INTO bulk_rows (send, number, status, address, person, data, code, message, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now_ms())

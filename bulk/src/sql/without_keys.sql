-- Requests with unknown rows that are settled or sent again, from $2 to $3, are not repeated with their keys any more: without
-- these rows, they would be other requests.
UPDATE bulk_requests SET keyed = 0 WHERE keyed = 1 AND id IN (
    SELECT request FROM bulk_rows WHERE send = $1 AND number BETWEEN $2 AND $3 AND status = $4
)

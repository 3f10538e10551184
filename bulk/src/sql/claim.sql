-- PostgreSQL may run a subquery several times, each of which locks other rows.
WITH due AS MATERIALIZED (
    SELECT number FROM bulk_rows WHERE send = $1 AND status = 'waiting' ORDER BY number LIMIT $3
    FOR UPDATE SKIP LOCKED
)
UPDATE bulk_rows SET status = 'held', request = $2
WHERE send = $1 AND number IN (SELECT number FROM due) RETURNING number, data

-- Other sends with people of the rows of $1 that wait: they have got an email of that send, or will.
-- CROSS JOIN, so that SQLite begins with the rows that wait.
SELECT s.id, count(*) FROM bulk_rows n CROSS JOIN bulk_rows r JOIN bulk_sends s ON s.send = r.send
WHERE n.send = $1 AND n.status = 'waiting' AND r.person = n.person AND r.send <> $1
AND s.email IS NOT NULL AND s.state <> 'draft' AND r.final IS DISTINCT FROM 'cancelled'
AND (
    r.again = 1 OR r.status IN ('in_flight', 'accepted', 'unknown')
    OR (r.status IN ('waiting', 'held') AND s.state <> 'cancelled')
)
GROUP BY s.id

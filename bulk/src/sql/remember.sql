-- Keeps who has got the email $2 from the send $1, or may have.
INSERT INTO bulk_sent (email, person, at)
SELECT $2, person, max(at) FROM bulk_rows
WHERE send = $1 AND final IS DISTINCT FROM 'cancelled'
AND (status IN ('in_flight', 'accepted', 'unknown') OR again = 1) GROUP BY person
ON CONFLICT (email, person) DO UPDATE SET at = excluded.at

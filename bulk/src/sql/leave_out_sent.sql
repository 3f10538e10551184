-- Leaves out the rows of the draft $1 whose people have got the email $2 from other sends, or may have.
UPDATE bulk_rows SET status = 'left_out', data = '', code = 'sent_before', at = now_ms(),
    message = 'an earlier send has sent the email to this address'
WHERE send = $1 AND status = 'waiting' AND (
    EXISTS (
        SELECT 1 FROM bulk_rows r JOIN bulk_sends s ON s.send = r.send
        WHERE r.person = bulk_rows.person AND r.send <> $1 AND s.email = $2 AND s.state <> 'draft'
        AND r.final IS DISTINCT FROM 'cancelled'
        AND (r.again = 1 OR r.status IN ('in_flight', 'accepted', 'unknown'))
    )
    OR EXISTS (SELECT 1 FROM bulk_sent m WHERE m.email = $2 AND m.person = bulk_rows.person)
)

SELECT m.email, coalesce(max(e.label), ''), count(*), max(m.at)
FROM bulk_sent m LEFT JOIN bulk_emails e ON e.email = m.email GROUP BY m.email ORDER BY max(m.at)

-- What is due of an organization (?1): when, about what, of which kind, and as a sentence. Jobs about what
-- was deleted do nothing, and those of the relay (?3) wait for a server that has one.
SELECT due_at, subject,
       CASE queue WHEN 'mail' THEN iif(position < 0, 'email', 'recipient') WHEN 'relay' THEN queue
                  WHEN 'received' THEN 'message' ELSE 'delivery' END,
       CASE WHEN e.id IS NOT NULL THEN
           '"' || (e.data ->> '$.shown.subject') || '" to '
           || CASE WHEN position < 0 THEN
                  (SELECT group_concat(value, ', ') FROM json_each(e.data, '$.shown.to'))
              ELSE e.data ->> ('$.recipients[' || position || '].address') END
           || CASE WHEN queue = 'relay' THEN ' goes to the relay, attempt ' || (attempt + 1)
                   WHEN position < 0 THEN ' is sent, as scheduled'
                   ELSE ' is delivered, with a delay' END
       WHEN m.id IS NOT NULL THEN
           'email.received for ' || m.recipient || ' goes to the webhooks'
       ELSE
           d.event || coalesce(' for ' || (d.data ->> 'recipient'), '') || ' goes to '
           || coalesce(w.data ->> 'url', 'a deleted webhook') || ', attempt ' || (d.attempts + 1)
       END
FROM job j
LEFT JOIN email e ON e.id = subject
LEFT JOIN message m ON m.id = subject
LEFT JOIN delivery d ON d.id = subject
LEFT JOIN webhook w ON w.organization = j.organization AND w.id = queue
WHERE j.organization = ?1 AND due_at IS NOT NULL AND coalesce(e.id, m.id, d.id) IS NOT NULL
      AND (?3 OR queue <> 'relay')
UNION ALL
-- Keys that have expired at ?2 stay until the next request with one.
SELECT MIN(expires_at), key, 'expiry',
       'the idempotency key ' || key || ' expires'
       || iif(COUNT(*) > 1, '; more that follow: ' || (COUNT(*) - 1), '')
FROM idempotency WHERE organization = ?1 AND expires_at > ?2 HAVING COUNT(*) > 0
ORDER BY 1, 2 LIMIT ?4 OFFSET ?5

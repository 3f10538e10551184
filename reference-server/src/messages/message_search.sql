-- The messages that match, newest first. A search reads only the newest (:searched).
SELECT {columns} FROM message m
WHERE organization {is} :organization AND {to} AND id > :first AND id < :last
      AND (:after IS NULL OR created_at > :after)
      AND (:subject IS NULL OR has_part(data ->> 'subject', :subject))
      AND (:from IS NULL OR is_address(data ->> 'from', :from))
      AND (:search IS NULL
           OR id > coalesce((SELECT id FROM message WHERE organization {is} :organization
                             ORDER BY id DESC LIMIT 1 OFFSET :searched), '')
              AND has_terms(
                  :search, id, email, recipient, data ->> 'from', data ->> 'subject',
                  data ->> 'preview',
                  coalesce((SELECT substr(coalesce(text, html), 1, 65536) FROM email_content
                            WHERE email = m.email), m.text)))
ORDER BY id DESC LIMIT :limit

-- The emails of an organization that match, newest first. A search reads only the newest (:searched).
SELECT status, data FROM email
WHERE organization = :organization AND id > :first AND id < :last
      AND (:after IS NULL OR created_at > :after) AND (:before IS NULL OR created_at < :before)
      AND (:status IS NULL OR status = :status)
      AND (:subject IS NULL OR has_part(data ->> '$.shown.subject', :subject))
      AND (:tag IS NULL OR EXISTS (
          SELECT 1 FROM json_each(data, '$.shown.tags')
          WHERE :tag IN (key, key || '=' || iif(type IN ('true', 'false', 'null'), type, value))))
      AND (:address IS NULL OR EXISTS (
          SELECT 1 FROM json_tree(data, '$.shown')
          WHERE (fullkey = '$.shown.from' OR path IN ('$.shown.to', '$.shown.cc', '$.shown.bcc'))
                AND is_address(value, :address)))
      AND (:search IS NULL
           OR id > coalesce((SELECT id FROM email WHERE organization = :organization
                             ORDER BY id DESC LIMIT 1 OFFSET :searched), '')
              AND has_terms(
                  :search, id, status, data ->> '$.shown.subject', data ->> '$.shown.lastEvent',
                  data ->> '$.shown.templateId', data ->> '$.shown.from', data ->> '$.shown.to',
                  data ->> '$.shown.cc', data ->> '$.shown.bcc',
                  (SELECT group_concat(
                       key || '=' || iif(type IN ('true', 'false', 'null'), type, value), ' ')
                   FROM json_each(data, '$.shown.tags')),
                  (SELECT substr(coalesce(text, html), 1, 65536) FROM email_content
                   WHERE email = email.id)))
ORDER BY id DESC LIMIT :limit

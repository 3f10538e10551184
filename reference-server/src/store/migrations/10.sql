-- Retention counts the received messages of each organization.
CREATE INDEX message_received ON message (organization, id) WHERE email IS NULL;

-- A change of one domain reads its records, and not those of all.
CREATE INDEX dns_record_domain ON dns_record (domain);

-- The result of DKIM names the signing domain.
UPDATE message
SET authentication = json_set(authentication, '$.dkim', json_object(
    'result', authentication ->> '$.dkim', 'domain', NULL, 'aligned', json('false')))
WHERE json_type(authentication, '$.dkim') = 'text';

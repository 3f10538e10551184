SELECT version, (SELECT max(version) FROM webhook_inbox_expanded) FROM webhook_inbox_schema
ORDER BY version DESC LIMIT 1

// Webhooks.

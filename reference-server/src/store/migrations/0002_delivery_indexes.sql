-- For the lists of deliveries by webhook, by event and by state.
CREATE INDEX delivery_webhook ON delivery (webhook, id);
CREATE INDEX delivery_event ON delivery (organization, event, id);
CREATE INDEX delivery_state ON delivery (organization, state, id) WHERE state <> 'delivered';

-- Faults on demand: `asked` as it was asked for, `skip` and `times` what is left.
CREATE TABLE fault (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL,
    asked TEXT NOT NULL,
    skip INTEGER NOT NULL,
    times INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX fault_organization ON fault (organization, id);

-- Requests that met a fault.
CREATE TABLE fault_met (
    seq INTEGER PRIMARY KEY,
    fault TEXT NOT NULL,
    at INTEGER NOT NULL,
    operation TEXT NOT NULL
) STRICT;
CREATE INDEX fault_met_fault ON fault_met (fault, seq);

-- Delivered messages whose recipient is in a domain that is verified here and
-- that are still to be told as received.
CREATE TABLE local_delivery (
    message TEXT PRIMARY KEY,
    organization INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Background jobs during which a server ended, or that met a defect of it. After three
-- times, a job is set aside.
CREATE TABLE crash (
    kind TEXT NOT NULL,
    job TEXT NOT NULL,
    crashes INTEGER NOT NULL,
    PRIMARY KEY (kind, job)
) STRICT, WITHOUT ROWID;

INSERT INTO crash SELECT 'local', message, attempts FROM local_delivery WHERE attempts > 0;

PRAGMA foreign_keys = OFF;
BEGIN TRANSACTION;
CREATE TABLE api_key (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    hash BLOB NOT NULL UNIQUE,
    data TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "api_key" VALUES('key_01a220b4-c970-74d0-9752-79843a107135',1,X'11BB8FC28E5A7AD5AEDD3A355DC4D3205B3DC37421119122658EA0E843A9814C','{"id":"key_01a220b4-c970-74d0-9752-79843a107135","service":"email","mode":"test","scopes":["emails:send","emails:read","contacts:manage","domains:manage","webhooks:manage"],"scope":null,"key":null,"hint":"mk_test_san…","sha256":"11bb8fc28e5a7ad5aedd3a355dc4d3205b3dc37421119122658ea0e843a9814c","createdAt":"2026-11-28T05:50:48.686Z"}');
INSERT INTO "api_key" VALUES('key_01a220b4-c970-74d0-9752-79852aba92fd',1,X'F5C8BB5A44B28CFBE65E7221F149920B2CF309586C63BC40FAE9BC0CE722B6A1','{"id":"key_01a220b4-c970-74d0-9752-79852aba92fd","service":"extraction","mode":"test","scopes":null,"scope":"full","key":null,"hint":"sk_test_san…","sha256":"f5c8bb5a44b28cfbe65e7221f149920b2cf309586c63bc40fae9bc0ce722b6a1","createdAt":"2026-11-28T05:50:48.686Z"}');
CREATE TABLE attempt (
    delivery TEXT NOT NULL REFERENCES delivery ON DELETE CASCADE,
    number INTEGER NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (delivery, number)
) STRICT;
CREATE TABLE audience (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    data TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "audience" VALUES('aud_01a220b4-c9d8-7784-90ec-8e4374bb436a',1,'{"id":"aud_01a220b4-c9d8-7784-90ec-8e4374bb436a","name":"News","createdAt":"2026-11-28T05:50:48.792Z","updatedAt":"2026-11-28T05:50:48.792Z"}');
CREATE TABLE body (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- SHA-256 of `bytes`.
    digest BLOB NOT NULL UNIQUE,
    bytes BLOB NOT NULL
) STRICT;
CREATE TABLE contact (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    audience TEXT NOT NULL REFERENCES audience ON DELETE CASCADE,
    -- Its address in normalized form, for uniqueness.
    email_key TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "contact" VALUES('con_01a220b4-ca04-73f4-bfbc-1c8d856d0ef9',1,'aud_01a220b4-c9d8-7784-90ec-8e4374bb436a','ada@example.test','{"id":"con_01a220b4-ca04-73f4-bfbc-1c8d856d0ef9","audienceId":"aud_01a220b4-c9d8-7784-90ec-8e4374bb436a","email":"ada@example.test","name":null,"metadata":{},"topics":[],"subscribed":true,"createdAt":"2026-11-28T05:50:48.836Z","updatedAt":"2026-11-28T05:50:48.836Z"}');
CREATE TABLE delivery (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    webhook TEXT NOT NULL,
    event TEXT NOT NULL,
    email TEXT REFERENCES email ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    data TEXT NOT NULL,
    head BLOB NOT NULL,
    shared INTEGER REFERENCES body,
    tail BLOB NOT NULL
) STRICT;
CREATE TABLE dns_record (
    owner TEXT NOT NULL,
    kind TEXT NOT NULL,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    domain TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (owner, kind)
) STRICT, WITHOUT ROWID;
INSERT INTO "dns_record" VALUES('dom_01a220b4-c970-74d0-9752-7986c2cd8054','dkim',1,'sandbox.test','{"kind":"dkim","type":"TXT","name":"sandbox._domainkey.sandbox.test","value":"v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAr6D8g4HKsQIem0H1hjIIPcs9wTrQJZ0OL7g3w4iGaQ8PafMUbmFcN0IMOca1PMKsNmFdWGqHevlYsJJFPgtTLGZm0rHTfjMWe78Xgy7SBI36GAaL7IIJyjZ6gawiSM4XY+mnOx5NXrBvm1hNeYAFkGo2IBQ08RXZqTY9319bnlFP/2Px2N7pm4NetlsQ+AhPi2a/HKm+uTU45MQFzgpCSg0VTC8owi+xmY9OvRM8gjX7GZtaOV1vHKKHB84gGxG6pKw/XBMJE3EbW/n3Lc0T4ZZqGAXBpB/1LnxYbU4mhhTO0e7dp8bEZZ0rk1xl9ls9yHPVQ2/3qva/goT7GpnzvwIDAQAB"}');
INSERT INTO "dns_record" VALUES('dom_01a220b4-c970-74d0-9752-7986c2cd8054','dmarc',1,'sandbox.test','{"kind":"dmarc","type":"TXT","name":"_dmarc.sandbox.test","value":"v=DMARC1; p=none"}');
INSERT INTO "dns_record" VALUES('dom_01a220b4-c970-74d0-9752-7986c2cd8054','mx',1,'sandbox.test','{"kind":"mx","type":"MX","name":"sandbox.test","value":"inbound.sandbox.localhost","priority":10}');
INSERT INTO "dns_record" VALUES('dom_01a220b4-c970-74d0-9752-7986c2cd8054','spf',1,'sandbox.test','{"kind":"spf","type":"TXT","name":"sandbox.test","value":"v=spf1 include:spf.inbound.sandbox.localhost ~all"}');
CREATE TABLE domain (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    selector TEXT NOT NULL,
    dkim_private BLOB NOT NULL,
    data TEXT NOT NULL,
    name TEXT NOT NULL AS (data ->> 'name') STORED,
    verified INTEGER NOT NULL AS (data ->> 'verified') STORED
) STRICT, WITHOUT ROWID;
INSERT INTO "domain" VALUES('dom_01a220b4-c970-74d0-9752-7986c2cd8054',1,'sandbox',X'308204BD020100300D06092A864886F70D0101010500048204A7308204A30201000282010100AFA0FC8381CAB1021E9B41F58632083DCB3DC13AD0259D0E2FB837C38886690F0F69F3146E615C37420C39C6B53CC2AC36615D586A877AF958B092453E0B532C6666D2B1D37E33167BBF17832ED2048DFA18068BEC8209CA367A81AC2248CE1763E9A73B1E4D5EB06F9B584D798005906A36201434F115D9A9363DDF5F5B9E514FFF63F1D8DEE99B835EB65B10F8084F8B66BF1CA9BEB93538E4C405CE0A424A0D154C2F28C22FB1998F4EBD133C8235FB199B5A395D6F1CA28707CE201B11BAA4AC3F5C130913711B5BF9F72DCD13E1966A1805C1A41FF52E7C586D4E268614CED1EEDDA7C6C4659D2B935C65F65B3DC873D5436FF7AAF6BF8284FB1A99F3BF02030100010282010010E4564FD25F4BB5BD253300DF0EACDAE9FE09E4683A0093140FE47D2557C2D45F527CBE0DA7C640CCFF740722A35CC34785072A0684FAAA44D77C1A0B7A4CB3A13313E20FF4BC0BD63718EC8072540726736D1DC424F5B56C96A27B8B33496F2D283F476106115768449EB244EA0549A5E2DD79A965E408C7F79EED29B4C6D338D64C04F6E196CFA64C3FBA409BA696E1AB2A5B87ECB838FDA137A997654E514F4E0120345CFC974B7B60CB23B7408056D4B7D78D37A52A1E512D5080D6EFB8BA92B6C468C0D394E387BF5604BAD74E21BA2DB2239AC7612B1D8E124AC7603A7E60743F80F74A742A0DD29BCD6C7D9FD3C19C9428D72B0A5943FC6E06FAA6A102818100F084178D81D58392C879CBC3675A48C3D2D463FDC8A3505174D36191535FEE2611407F5A6BDABE2E0582692AA4658CD96B31BF5CBC013B282E880576A2B99E8A328ACADC2BB085CE56858E75072B3404DFE3FE1F8921424F71D841B9F706DC8DB2623362EEF5132CF3273577CBD6C3F0DF4A8F16920944021C83C1FE4D2B821702818100BAEF7FCFBD4E518AACD1AA21D0DA4B7A61D1CB05E0873EF61A2202BCA59910E9F2EC950508D473A43A82D3B549226FBB9FEB298D0757D4091B14D1EA9CC8B87D464384139EE5406D7E39C096EA4CCD2AE47C52BEC5DCE11D7FD3AA9EF1E6C3336550074AF72459C31BB5476F78BA2D650F711E84CE179DB8DE4DE3960534EC99028180108F079016803CAEBE5EA448AFB4E78D93D64B8C0D6431036AA7A2EFFE6D7C57E2982E2C6B8083D76749B333DC5DA174D68C76404C3149815AB2C2AD88467F43C47709C05EC1A874AC4045AE88EFD08505650CF9DED70B59ACDCD6A996F841F6FF710358AC5AF31705268DE7D180D7BC9DA2E4770956D9F7CB3EC6FC5B13C3C10281800CC8C852EABD6A7233737B5128B965240F808B83F1610E7B423A4539A5919C4883A68E6273C223CE7D79E904A2E5CA0268E36A4A0CD082DDC48E5DF4CF982295DEB24B5C1427D58A2771C7AC0A860A19FEDA49C6663DBEDF87987038C28E6797223CA0E30D97DCD3AD176EB53EEA6CA456B403C44D5BEC1B72889D21EB653D3102818100821B0ED73393DBE652FAFF0C4FB9940ED52260AAAFD443612166AF76E39B72EF6992C6E3E26887DA4C20B1EACD691AE669C2907E495373F3DA4586BD1278292EE961F12111B4D08A4D6F8AEE3F20DE7B426FAFC0ABADF5F4143063F21E026604CF303C0BEE0432E896A3E72D7487CA5DCDA09F6C5803D470CC25F5687AB94643','{"id":"dom_01a220b4-c970-74d0-9752-7986c2cd8054","name":"sandbox.test","mx_verified":true,"spf_verified":true,"dkim_verified":true,"dmarc_verified":true,"verified":true,"records":[{"kind":"mx","type":"MX","name":"sandbox.test","value":"inbound.sandbox.localhost","priority":10},{"kind":"spf","type":"TXT","name":"sandbox.test","value":"v=spf1 include:spf.inbound.sandbox.localhost ~all"},{"kind":"dkim","type":"TXT","name":"sandbox._domainkey.sandbox.test","value":"v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAr6D8g4HKsQIem0H1hjIIPcs9wTrQJZ0OL7g3w4iGaQ8PafMUbmFcN0IMOca1PMKsNmFdWGqHevlYsJJFPgtTLGZm0rHTfjMWe78Xgy7SBI36GAaL7IIJyjZ6gawiSM4XY+mnOx5NXrBvm1hNeYAFkGo2IBQ08RXZqTY9319bnlFP/2Px2N7pm4NetlsQ+AhPi2a/HKm+uTU45MQFzgpCSg0VTC8owi+xmY9OvRM8gjX7GZtaOV1vHKKHB84gGxG6pKw/XBMJE3EbW/n3Lc0T4ZZqGAXBpB/1LnxYbU4mhhTO0e7dp8bEZZ0rk1xl9ls9yHPVQ2/3qva/goT7GpnzvwIDAQAB"},{"kind":"dmarc","type":"TXT","name":"_dmarc.sandbox.test","value":"v=DMARC1; p=none"}],"createdAt":"2026-11-28T05:50:48.686Z","updatedAt":"2026-11-28T05:50:48.686Z"}');
CREATE TABLE email (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    status TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    data TEXT NOT NULL
) STRICT;
INSERT INTO "email" VALUES('eml_01a220b4-c998-7600-9669-0f19041fd849',1,'delivered',1795845048728,'{"shown":{"id":"eml_01a220b4-c998-7600-9669-0f19041fd849","status":"delivered","from":"hello@sandbox.test","to":["ada@example.test"],"cc":[],"bcc":[],"replyTo":[],"subject":"Kept over an upgrade","tags":{"k":"v"},"scheduledAt":null,"templateId":null,"createdAt":"2026-11-28T05:50:48.728Z","updatedAt":"2026-11-28T05:50:48.728Z","lastEvent":"email.delivered"},"organization":1,"request":"req_01a220b4-c996-71dd-9fcc-13c1641bc274","domain":"sandbox.test","tracking":null,"preview":"Hello","attachments":0,"recipients":[{"address":"ada@example.test","status":"delivered","detail":null}],"history":[{"t":1795845048728,"s":"sent","e":"email.sent","r":0},{"t":1795845048728,"s":"delivered","e":"email.delivered","r":0}]}');
INSERT INTO "email" VALUES('eml_01a220b4-ca89-7407-8377-7d3a84086b0a',1,'queued',1795845048969,'{"shown":{"id":"eml_01a220b4-ca89-7407-8377-7d3a84086b0a","status":"queued","from":"hello@sandbox.test","to":["bob@example.test"],"cc":[],"bcc":[],"replyTo":[],"subject":"Later","tags":{},"scheduledAt":"2035-01-01T00:00:00.000Z","templateId":null,"createdAt":"2026-11-28T05:50:48.969Z","updatedAt":"2026-11-28T05:50:48.969Z","lastEvent":null},"organization":1,"request":"req_01a220b4-ca88-72bc-994c-8bb331180598","domain":"sandbox.test","tracking":null,"preview":"Hello","attachments":0,"recipients":[{"address":"bob@example.test","status":"queued","detail":null}],"history":[]}');
CREATE TABLE email_attachment (
    email TEXT NOT NULL REFERENCES email ON DELETE CASCADE,
    position INTEGER NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (email, position)
) STRICT;
CREATE TABLE email_content (
    email TEXT PRIMARY KEY REFERENCES email ON DELETE CASCADE,
    headers TEXT NOT NULL,
    attachments TEXT NOT NULL,
    html TEXT,
    text TEXT
) STRICT;
INSERT INTO "email_content" VALUES('eml_01a220b4-c998-7600-9669-0f19041fd849','{}','[]',NULL,'Hello');
INSERT INTO "email_content" VALUES('eml_01a220b4-ca89-7407-8377-7d3a84086b0a','{}','[]',NULL,'Hello');
CREATE TABLE fault (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    data TEXT NOT NULL,
    skip INTEGER NOT NULL AS (coalesce(data ->> 'skip', 0) - skipped),
    times INTEGER NOT NULL AS (data ->> 'remaining'),
    skipped INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE idempotency (
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    service TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    status INTEGER NOT NULL,
    body BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (organization, service, key)
) STRICT;
CREATE TABLE job (
    queue TEXT NOT NULL,
    subject TEXT NOT NULL,
    position INTEGER NOT NULL,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    lane TEXT,
    due_at INTEGER,
    attempt INTEGER NOT NULL,
    -- The positions of the recipients whose message the relay may have, as a JSON array.
    handed_over TEXT,
    PRIMARY KEY (queue, subject, position)
) STRICT, WITHOUT ROWID;
INSERT INTO "job" VALUES('mail','eml_01a220b4-ca89-7407-8377-7d3a84086b0a',-1,1,NULL,2051222400000,0,NULL);
CREATE TABLE message (
    id TEXT PRIMARY KEY,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    recipient TEXT NOT NULL COLLATE NOCASE,
    email TEXT REFERENCES email ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    domain TEXT REFERENCES domain ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    data TEXT NOT NULL,
    authentication TEXT,
    text TEXT,
    source INTEGER REFERENCES body
) STRICT;
INSERT INTO "message" VALUES('msg_01a220b4-c998-7600-9669-0f1afde74626',1,'ada@example.test','eml_01a220b4-c998-7600-9669-0f19041fd849',NULL,1795845048728,'{"id":"msg_01a220b4-c998-7600-9669-0f1afde74626","direction":"outgoing","emailId":"eml_01a220b4-c998-7600-9669-0f19041fd849","from":"hello@sandbox.test","recipient":"ada@example.test","subject":"Kept over an upgrade","preview":"Hello","attachments":0,"createdAt":"2026-11-28T05:50:48.728Z"}',NULL,NULL,NULL);
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE organization (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    balance_cents INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
INSERT INTO "organization" VALUES(1,'org_01a220b4-c96e-735f-8dfa-c7f0da48a61e','Sandbox',0,1795845048686);
CREATE TABLE template (
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    id TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (organization, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook (
    id TEXT NOT NULL,
    organization INTEGER NOT NULL REFERENCES organization ON DELETE CASCADE,
    data TEXT NOT NULL,
    service TEXT NOT NULL AS (data ->> 'service') STORED,
    active INTEGER NOT NULL AS (data ->> 'active') STORED,
    events TEXT NOT NULL AS (data ->> 'events') STORED,
    PRIMARY KEY (organization, id)
) STRICT, WITHOUT ROWID;
INSERT INTO "webhook" VALUES('whk_01a220b4-ca36-7170-9ce4-254e9350c1b3',1,'{"id":"whk_01a220b4-ca36-7170-9ce4-254e9350c1b3","service":"email","url":"http://127.0.0.1:1/hook","events":["email.delivered"],"active":true,"secret":"whsec_9af0c83fa14c4d549fada44f965580510c99946f202eb4a0b9b984f674ec0258","createdAt":"2026-11-28T05:50:48.886Z","updatedAt":"2026-11-28T05:50:48.886Z"}');
CREATE INDEX contact_audience ON contact (audience, id);
CREATE UNIQUE INDEX contact_email ON contact (audience, email_key);
CREATE UNIQUE INDEX domain_name ON domain (name, organization);
CREATE INDEX email_organization ON email (organization, id);
CREATE INDEX message_organization ON message (organization, id);
CREATE INDEX message_recipient ON message (organization, recipient, id);
CREATE INDEX message_email ON message (email) WHERE email IS NOT NULL;
CREATE INDEX message_source ON message (source) WHERE source IS NOT NULL;
CREATE INDEX delivery_organization ON delivery (organization, id);
CREATE INDEX delivery_email ON delivery (email, id) WHERE email IS NOT NULL;
CREATE INDEX delivery_shared ON delivery (shared) WHERE shared IS NOT NULL;
CREATE INDEX job_due ON job (queue, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX job_lane ON job (queue, lane) WHERE lane IS NOT NULL;
CREATE TRIGGER message_body AFTER DELETE ON message WHEN OLD.source IS NOT NULL BEGIN
    DELETE FROM body WHERE id = OLD.source
        AND NOT EXISTS (SELECT 1 FROM message WHERE source = OLD.source)
        AND NOT EXISTS (SELECT 1 FROM delivery WHERE shared = OLD.source);
END;
CREATE TRIGGER delivery_body AFTER DELETE ON delivery WHEN OLD.shared IS NOT NULL BEGIN
    DELETE FROM body WHERE id = OLD.shared
        AND NOT EXISTS (SELECT 1 FROM message WHERE source = OLD.shared)
        AND NOT EXISTS (SELECT 1 FROM delivery WHERE shared = OLD.shared);
END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('organization',1);
COMMIT;
PRAGMA user_version = 9;

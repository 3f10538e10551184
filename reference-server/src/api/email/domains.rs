//! Sending domains and their verification (`docs/email-service/domains.md`).

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use http::StatusCode;
use rusqlite::{Connection, Row};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audiences::required_name;
use crate::api::app::App;
use crate::api::framework::input::object;
use crate::api::framework::{ApiResponse, Call};
use crate::mail::dkim::{self, SANDBOX_KEY, SigningKey};
use crate::mail::dns::{self, Check, Record, RecordKind};
use crate::model::address::DomainName;
use crate::model::error::{ApiError, Code};
use crate::model::id::{self, Prefix};
use crate::model::schema;
use crate::model::time::{self, Millis};
use crate::store::keys::random_hex;
use crate::store::{self, Tx};

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewDomain")]
pub(crate) struct New {
    /// A domain name with at least two labels. It may be internationalized.
    #[schemars(required, extend("format" = "domain-name", "minLength" = 3))]
    name: Option<String>,
}

pub(crate) struct Domain {
    pub(crate) id: String,
    organization: i64,
    pub(crate) name: String,
    selector: String,
    /// The value of the DKIM record.
    public_key: String,
    flags: Flags,
    created_at: Millis,
    updated_at: Millis,
}

/// The results of the last verification, with the documented names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the five documented fields")]
struct Flags {
    mx_verified: bool,
    spf_verified: bool,
    dkim_verified: bool,
    dmarc_verified: bool,
    /// Whether all four checks passed.
    verified: bool,
}

/// A sending domain.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Domain")]
pub(crate) struct View<'a> {
    id: &'a str,
    name: &'a str,
    #[serde(flatten)]
    flags: Flags,
    /// The DNS records that the owner of the domain must publish.
    records: [Record; 4],
    /// The result of each check; only in the response to a verification.
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<&'a [Check]>,
    #[serde(rename = "createdAt")]
    #[schemars(with = "schema::Time")]
    created_at: String,
    #[serde(rename = "updatedAt")]
    #[schemars(with = "schema::Time")]
    updated_at: String,
}

/// The documented response to a deletion.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeletedDomain")]
pub(crate) struct Deleted {
    #[schemars(extend("const" = true))]
    ok: bool,
}

impl Domain {
    /// The DNS records that the owner of the domain must publish.
    pub(crate) fn records(&self) -> [Record; 4] {
        dns::records(&self.name, &self.selector, &self.public_key, dns::INBOUND_HOST)
    }

    fn view<'a>(&'a self, checks: Option<&'a [Check]>) -> View<'a> {
        View {
            id: &self.id,
            name: &self.name,
            flags: self.flags,
            records: self.records(),
            checks,
            created_at: time::rfc3339(self.created_at),
            updated_at: time::rfc3339(self.updated_at),
        }
    }
}

pub(crate) async fn create(mut call: Call) -> Result<ApiResponse, ApiError> {
    let body = call.input.json_bytes().await?;
    let new: New = object(&body)?;
    let name = required_name(new.name)?;
    let name = DomainName::parse(&name).ok().filter(|name| name.as_str().contains('.'));
    let Some(name) = name else {
        return Err(ApiError::field("name", "must be a domain name such as mail.example.com"));
    };
    // Runs on a blocking thread: it takes about 0.2 seconds.
    let key = dkim::new_key().await.map_err(ApiError::internal)?;
    let (compatibility, organization) = (call.compatibility().clone(), call.organization());
    call.create(&body, move |tx| {
        let selector = format!("svc{}", random_hex::<4>()?);
        let domain = insert(tx, organization, name.as_str(), &selector, &key)?;
        ApiResponse::created(&compatibility, StatusCode::CREATED, &domain.view(None))
    })
    .await
}

pub(crate) async fn list(call: Call) -> Result<ApiResponse, ApiError> {
    let organization = call.organization();
    let all = call.app().store.read(move |connection| {
        let sql = format!("SELECT {COLUMNS} FROM domain WHERE organization = ?1 ORDER BY id");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([organization], read)?;
        Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
    });
    let all = all.await?;
    let views: Vec<View<'_>> = all.iter().map(|domain| domain.view(None)).collect();
    ApiResponse::list(call.compatibility(), &views)
}

/// Checks the four DNS records. A flag can change back to `false`
/// (`docs/undocumented/email-service.md#repeated-verification`).
pub(crate) async fn verify(mut call: Call) -> Result<ApiResponse, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    let find_it = {
        let id = id.clone();
        move |connection: &Connection| find(connection, &id, organization)
    };
    let records = call.app().store.read(find_it).await?.records();
    // The operation has no body, but a body that was sent must be read.
    call.input.bytes().await?;
    let checks = dns::check(&call.app().resolver, &records).await;
    let passed = |kind| checks.iter().any(|check| check.kind == kind && check.passed);
    let flags = Flags {
        mx_verified: passed(RecordKind::Mx),
        spf_verified: passed(RecordKind::Spf),
        dkim_verified: passed(RecordKind::Dkim),
        dmarc_verified: passed(RecordKind::Dmarc),
        verified: RecordKind::ALL.into_iter().all(passed),
    };
    let verified = Arc::clone(&call.app().verified);
    let domain = call.app().store.write(move |tx| {
        let mut domain = find(tx.connection(), &id, organization)?;
        if flags.verified {
            let name = domain.name.clone();
            tx.after_commit(move || verified.add(name));
        }
        if domain.flags != flags {
            domain.flags = flags;
            domain.updated_at = tx.now;
            tx.execute(
                "UPDATE domain SET mx_verified = ?2, spf_verified = ?3, dkim_verified = ?4,
                                   dmarc_verified = ?5, updated_at = ?6 WHERE id = ?1",
                (
                    &id,
                    flags.mx_verified,
                    flags.spf_verified,
                    flags.dkim_verified,
                    flags.dmarc_verified,
                    tx.now,
                ),
            )?;
        }
        Ok(domain)
    });
    ApiResponse::resource(call.compatibility(), &domain.await?.view(Some(&checks)))
}

/// Deletes a domain with its DKIM key, its mailboxes and their messages
/// (`docs/undocumented/email-service.md#mailboxes`). Published DNS records stay, because
/// they belong to the owner of the domain.
pub(crate) async fn delete(call: Call) -> Result<ApiResponse, ApiError> {
    let (id, organization) = (call.input.id().to_owned(), call.organization());
    call.app()
        .store
        .write(move |tx| {
            find(tx.connection(), &id, organization)?;
            tx.execute(
                "DELETE FROM message_source WHERE message IN (SELECT id FROM message WHERE domain = ?1)",
                [&id],
            )?;
            tx.execute("DELETE FROM message WHERE domain = ?1", [&id])?;
            tx.execute("DELETE FROM domain WHERE id = ?1", [&id])?;
            ApiResponse::json(StatusCode::OK, &Deleted { ok: true })
        })
        .await
}

/// Whether an organization may send from this domain. A subdomain of a verified domain
/// must be verified itself (`docs/undocumented/email-service.md#addresses`).
pub(crate) fn is_verified(tx: &Tx<'_>, organization: i64, domain: &str) -> Result<bool, ApiError> {
    let found = tx.find(
        "SELECT 1 FROM domain WHERE name = ?1 AND organization = ?2
         AND mx_verified AND spf_verified AND dkim_verified AND dmarc_verified",
        (domain, organization),
        |_| Ok(()),
    )?;
    Ok(found.is_some())
}

/// Creates the seeded domain: its records are published, and it is verified.
pub(crate) fn seed(
    tx: &mut Tx<'_>,
    app: &Arc<App>,
    organization: i64,
    name: &str,
) -> Result<(), ApiError> {
    let domain = insert(tx, organization, name, "sandbox", SANDBOX_KEY)?;
    tx.execute(
        "UPDATE domain SET mx_verified = 1, spf_verified = 1, dkim_verified = 1, dmarc_verified = 1
         WHERE id = ?1",
        [&domain.id],
    )?;
    let (verified, name) = (Arc::clone(&app.verified), domain.name.clone());
    tx.after_commit(move || verified.add(name));
    publish(tx, app, &domain, &RecordKind::ALL)
}

/// Publishes DNS records of a domain in the built-in zone.
pub(crate) fn publish(
    tx: &mut Tx<'_>,
    app: &Arc<App>,
    domain: &Domain,
    kinds: &[RecordKind],
) -> Result<(), ApiError> {
    for record in domain.records().into_iter().filter(|record| kinds.contains(&record.kind)) {
        tx.execute(
            "INSERT OR REPLACE INTO dns_record VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (
                &domain.id,
                record.kind.as_str(),
                domain.organization,
                &domain.name,
                &record.name,
                &record.value,
                record.priority,
            ),
        )?;
        let (zone, owner) = (Arc::clone(&app.zone), domain.id.clone());
        tx.after_commit(move || {
            zone.withdraw(&owner, Some(record.kind));
            zone.publish(&owner, record.kind, &record.name, record.data());
        });
    }
    Ok(())
}

/// The names of verified domains, as a filter in memory: most outgoing mail is for other
/// domains and needs no database lookup.
#[derive(Debug, Default)]
pub(crate) struct VerifiedDomains(RwLock<HashSet<String>>);

impl VerifiedDomains {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether the domain may be verified. It may also have been deleted since.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    fn add(&self, name: String) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(name);
    }

    pub(crate) fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn load(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(
            "SELECT name FROM domain
             WHERE mx_verified AND spf_verified AND dkim_verified AND dmarc_verified",
        )?;
        let names = statement.query_map([], |row| row.get(0))?;
        let names = names.collect::<rusqlite::Result<_>>()?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = names;
        Ok(())
    }
}

/// Loads the verified domains and the built-in zone from the database.
pub(crate) fn load_zone(connection: &Connection, app: &App) -> Result<(), ApiError> {
    app.verified.load(connection)?;
    app.zone.clear();
    let mut statement =
        connection.prepare_cached("SELECT owner, kind, name, value, priority FROM dns_record")?;
    let rows = statement.query_map([], |row| {
        let kind: String = row.get(1)?;
        let record = |kind| -> rusqlite::Result<Record> {
            Ok(Record { kind, name: row.get(2)?, value: row.get(3)?, priority: row.get(4)? })
        };
        Ok((row.get::<_, String>(0)?, kind.parse().ok().map(record).transpose()?))
    })?;
    for row in rows {
        if let (owner, Some(record)) = row? {
            app.zone.publish(&owner, record.kind, &record.name, record.data());
        }
    }
    Ok(())
}

fn insert(
    tx: &Tx<'_>,
    organization: i64,
    name: &str,
    selector: &str,
    key: &[u8],
) -> Result<Domain, ApiError> {
    let existing = tx.find(
        "SELECT 1 FROM domain WHERE name = ?1 AND organization = ?2",
        (name, organization),
        |_| Ok(()),
    )?;
    if existing.is_some() {
        return Err(ApiError::new(Code::Conflict, "the organization already has this domain"));
    }
    let domain = Domain {
        id: id::new(Prefix::Domain),
        organization,
        name: name.to_owned(),
        selector: selector.to_owned(),
        public_key: SigningKey::from_pkcs8(key).map_err(ApiError::internal)?.record(),
        flags: Flags::default(),
        created_at: tx.now,
        updated_at: tx.now,
    };
    tx.execute(
        "INSERT INTO domain (id, organization, name, dkim_selector, dkim_private, dkim_public,
                             mx_verified, spf_verified, dkim_verified, dmarc_verified, created_at,
                             updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, 0, 0, ?7, ?7)",
        (&domain.id, organization, name, selector, key, &domain.public_key, tx.now),
    )?;
    Ok(domain)
}

pub(crate) fn find(
    connection: &Connection,
    id: &str,
    organization: i64,
) -> Result<Domain, ApiError> {
    let sql = format!("SELECT {COLUMNS} FROM domain WHERE id = ?1 AND organization = ?2");
    store::find(connection, &sql, (id, organization), read)?
        .ok_or_else(|| ApiError::not_found("domain"))
}

/// Finds a domain by its name or its ID.
pub(crate) fn find_named(
    connection: &Connection,
    name: &str,
    organization: i64,
) -> Result<Domain, ApiError> {
    let sql =
        format!("SELECT {COLUMNS} FROM domain WHERE (name = ?1 OR id = ?1) AND organization = ?2");
    store::find(connection, &sql, (name, organization), read)?
        .ok_or_else(|| ApiError::not_found("domain"))
}

const COLUMNS: &str = "id, organization, name, dkim_selector, dkim_public, mx_verified, spf_verified, \
                       dkim_verified, dmarc_verified, created_at, updated_at";

fn read(row: &Row<'_>) -> rusqlite::Result<Domain> {
    let (mx, spf, dkim, dmarc) = (row.get(5)?, row.get(6)?, row.get(7)?, row.get(8)?);
    Ok(Domain {
        id: row.get(0)?,
        organization: row.get(1)?,
        name: row.get(2)?,
        selector: row.get(3)?,
        public_key: row.get(4)?,
        flags: Flags {
            mx_verified: mx,
            spf_verified: spf,
            dkim_verified: dkim,
            dmarc_verified: dmarc,
            verified: mx && spf && dkim && dmarc,
        },
        created_at: row.get(9)?,
        updated_at: row.get(10)?,
    })
}

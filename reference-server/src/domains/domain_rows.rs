//! The tables `domain` and `dns_record`: sending domains, and the records that are published in the
//! built-in zone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::model::dns::{self, Check};
use crate::model::{Code, Failure, Record, RecordKind, Result, Timestamp, id};
use crate::organizations::organization_rows;
use crate::store::{Json, Reader, Row, Tx, json};

/// A sending domain.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Domain {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) flags: Flags,
    /// The DNS records that the owner of the domain must publish.
    pub(crate) records: [Record; 4],
    /// The result of each check; only in the response to a verification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checks: Option<Vec<Check>>,
    #[serde(rename = "createdAt")]
    created_at: Timestamp,
    #[serde(rename = "updatedAt")]
    updated_at: Timestamp,
}

/// The results of the last verification, with the documented names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the five documented fields")]
pub(crate) struct Flags {
    pub(crate) mx_verified: bool,
    pub(crate) spf_verified: bool,
    pub(crate) dkim_verified: bool,
    pub(crate) dmarc_verified: bool,
    /// Whether all four checks passed.
    pub(crate) verified: bool,
}

impl Flags {
    /// The flags of a domain of which these checks have passed.
    pub(crate) fn of(passed: impl Fn(RecordKind) -> bool) -> Self {
        Self {
            mx_verified: passed(RecordKind::Mx),
            spf_verified: passed(RecordKind::Spf),
            dkim_verified: passed(RecordKind::Dkim),
            dmarc_verified: passed(RecordKind::Dmarc),
            verified: RecordKind::ALL.into_iter().all(passed),
        }
    }
}

impl Row for Domain {
    const TABLE: &'static str = "domain";
}

/// Inserts a domain that is not verified yet, or returns 409 if the organization has it.
/// `public_key` is the value of the DKIM record for the private one.
pub(crate) fn insert(
    tx: &Tx<'_>,
    organization: i64,
    name: &str,
    selector: &str,
    private_key: &[u8],
    public_key: &str,
) -> Result<Domain> {
    let domain = Domain {
        id: id::new(id::DOMAIN),
        name: name.to_owned(),
        flags: Flags::default(),
        records: dns::records(name, selector, public_key),
        checks: None,
        created_at: tx.now.into(),
        updated_at: tx.now.into(),
    };
    let sql = "INSERT INTO domain (id, organization, selector, dkim_private, data)
               VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
    if tx.execute(
        sql,
        (
            &domain.id,
            organization,
            selector,
            private_key,
            Json(&domain),
        ),
    )? > 0
    {
        return Ok(domain);
    }

    Err(Failure::new(
        Code::Conflict,
        "the organization already has this domain",
    ))
}

/// Stores the results of a verification. With all checks passed, mail for the domain
/// reaches this organization once the transaction commits.
pub(crate) fn set_flags(
    tx: &Tx<'_>,
    organization: i64,
    domain: &mut Domain,
    flags: Flags,
) -> Result<()> {
    if domain.flags != flags {
        domain.flags = flags;
        tx.update(organization, domain)?;
    }
    Ok(())
}

/// Finds a domain by its name or its ID.
pub(crate) fn find_named(reader: Reader<'_>, name: &str, organization: i64) -> Result<Domain> {
    let sql = "SELECT data FROM domain WHERE (name = ?1 OR id = ?1) AND organization = ?2";
    match reader.find(sql, (name, organization), |row| json(row, 0))? {
        Some(domain) => Ok(domain),
        None => Err(Failure::not_found(&format!(
            "domain{}",
            organization_rows::has_it(reader, Domain::TABLE, name)?
        ))),
    }
}

/// The name of the oldest verified domain.
pub(crate) fn first_verified(reader: Reader<'_>) -> Result<Option<String>> {
    let sql = "SELECT name FROM domain WHERE verified ORDER BY id LIMIT 1";
    Ok(reader.find(sql, [], |row| row.get(0))?)
}

/// The verified domains with this name, each as domain id and organization. Several
/// organizations may have the same domain. A subdomain of a verified domain must be verified itself
/// (`docs/undocumented/services.md#addresses`).
pub(crate) fn owners(
    reader: Reader<'_>,
    domain: &str,
    organization: Option<i64>,
) -> Result<Vec<(String, i64)>> {
    let sql = "SELECT id, organization FROM domain
               WHERE name = ?1 AND verified AND (?2 IS NULL OR organization = ?2) ORDER BY id";
    reader.all(sql, (domain, organization), |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
}

/// The DKIM selector and private key of an organization's domain.
pub(crate) struct Signer {
    pub(crate) selector: String,
    pub(crate) key: Zeroizing<Vec<u8>>,
}

pub(crate) fn signer(
    reader: Reader<'_>,
    domain: &str,
    organization: i64,
) -> Result<Option<Signer>> {
    let sql = "SELECT selector, dkim_private FROM domain WHERE name = ?1 AND organization = ?2";
    Ok(reader.find(sql, (domain, organization), |row| {
        Ok(Signer {
            selector: row.get(0)?,
            key: Zeroizing::new(row.get(1)?),
        })
    })?)
}

/// Stores a record of the domain, in place of an earlier one of this kind.
pub(crate) fn put_record(
    tx: &Tx<'_>,
    organization: i64,
    domain: &Domain,
    record: &Record,
) -> Result<()> {
    let Domain { id, name, .. } = domain;
    let sql = "INSERT OR REPLACE INTO dns_record (owner, kind, organization, domain, data)
               VALUES (?1, ?2, ?3, ?4, ?5)";
    tx.execute(
        sql,
        (id, record.kind.as_str(), organization, name, Json(record)),
    )?;
    Ok(())
}

/// Deletes the records of this kind, or all_records, of the domains with this name or ID. Returns whether there
/// were any.
pub(crate) fn delete_records(
    tx: &Tx<'_>,
    organization: i64,
    domain: &str,
    kind: Option<RecordKind>,
) -> Result<bool> {
    let sql = "DELETE FROM dns_record WHERE organization = ?1 AND (domain = ?2 OR owner = ?2)
               AND (?3 IS NULL OR kind = ?3)";
    Ok(tx.execute(sql, (organization, domain, kind.map(RecordKind::as_str)))? > 0)
}

/// The name of the domain that has this ID, if it has published records.
pub(crate) fn domain_of_records(reader: Reader<'_>, id: &str) -> Result<Option<String>> {
    let sql = "SELECT domain FROM dns_record WHERE owner = ?1 LIMIT 1";
    Ok(reader.find(sql, [id], |row| row.get(0))?)
}

/// The records of the domains with this name, of all_records organizations.
pub(crate) fn records_of(reader: Reader<'_>, domain: &str) -> Result<Vec<Record>> {
    let sql = "SELECT data FROM dns_record WHERE domain = ?1";
    reader.all(sql, [domain], |row| json(row, 0))
}

/// All records, each with the name of its domain.
pub(crate) fn all_records(reader: Reader<'_>) -> Result<Vec<(String, Record)>> {
    reader.all("SELECT domain, data FROM dns_record", [], |row| {
        Ok((row.get(0)?, json(row, 1)?))
    })
}

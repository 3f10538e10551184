//! The table `domain`: sending domains, and the names of the verified ones in memory.

use rusqlite::Row;
use schemars::JsonSchema;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::model::dns::{self, Record};
use crate::model::error::{ApiError, Code};
use crate::model::id::{self, Prefix};
use crate::model::time::Millis;
use crate::store::{Reader, Tx, organizations};

pub(crate) struct Domain {
    pub(crate) id: String,
    pub(crate) organization: i64,
    pub(crate) name: String,
    selector: String,
    /// The value of the DKIM record.
    public_key: String,
    pub(crate) flags: Flags,
    pub(crate) created_at: Millis,
    pub(crate) updated_at: Millis,
}

/// The results of the last verification, with the documented names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the five documented fields")]
pub(crate) struct Flags {
    pub(crate) mx_verified: bool,
    pub(crate) spf_verified: bool,
    pub(crate) dkim_verified: bool,
    pub(crate) dmarc_verified: bool,
    /// Whether all four checks passed.
    pub(crate) verified: bool,
}

impl Domain {
    /// The DNS records that the owner of the domain must publish.
    pub(crate) fn records(&self) -> [Record; 4] {
        dns::records(&self.name, &self.selector, &self.public_key, dns::INBOUND_HOST)
    }
}

/// Inserts a domain that is not verified yet, or returns 409 if the organization has it.
/// `public_key` is the value of the DKIM record for the private one.
pub(crate) fn insert(
    tx: &Tx<'_>,
    organization: i64,
    name: &str,
    selector: String,
    private_key: &[u8],
    public_key: String,
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
        selector,
        public_key,
        flags: Flags::default(),
        created_at: tx.now,
        updated_at: tx.now,
    };
    tx.execute(
        "INSERT INTO domain (id, organization, name, dkim_selector, dkim_private, dkim_public,
                             mx_verified, spf_verified, dkim_verified, dmarc_verified, created_at,
                             updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, 0, 0, ?7, ?7)",
        (&domain.id, organization, name, &domain.selector, private_key, &domain.public_key, tx.now),
    )?;
    Ok(domain)
}

/// Lists the domains of an organization, oldest first.
pub(crate) fn list(reader: Reader<'_>, organization: i64) -> Result<Vec<Domain>, ApiError> {
    page(reader, organization, "", i64::MAX)
}

/// Lists the domains of an organization after this one, oldest first.
pub(crate) fn page(
    reader: Reader<'_>,
    organization: i64,
    after: &str,
    limit: i64,
) -> Result<Vec<Domain>, ApiError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM domain WHERE organization = ?1 AND id > ?2 ORDER BY id LIMIT ?3"
    );
    reader.all(&sql, (organization, after, limit), read)
}

/// Stores the results of a verification. With all checks passed, mail for the domain
/// reaches this organization once the transaction commits.
pub(crate) fn set_flags(tx: &Tx<'_>, domain: &mut Domain, flags: Flags) -> Result<(), ApiError> {
    if domain.flags != flags {
        domain.flags = flags;
        domain.updated_at = tx.now;
        tx.execute(
            "UPDATE domain SET mx_verified = ?2, spf_verified = ?3, dkim_verified = ?4,
                               dmarc_verified = ?5, updated_at = ?6 WHERE id = ?1",
            (
                &domain.id,
                flags.mx_verified,
                flags.spf_verified,
                flags.dkim_verified,
                flags.dmarc_verified,
                tx.now,
            ),
        )?;
    }
    Ok(())
}

/// Deletes a domain with its mailboxes and their messages.
pub(crate) fn delete(tx: &Tx<'_>, id: &str, organization: i64) -> Result<(), ApiError> {
    let sql = "DELETE FROM domain WHERE id = ?1 AND organization = ?2";
    tx.change("domain", sql, (id, organization))
}

pub(crate) fn find(reader: Reader<'_>, id: &str, organization: i64) -> Result<Domain, ApiError> {
    let sql = format!("SELECT {COLUMNS} FROM domain WHERE id = ?1 AND organization = ?2");
    reader.find(&sql, (id, organization), read)?.ok_or_else(|| ApiError::not_found("domain"))
}

/// Finds a domain by its name or its ID.
pub(crate) fn find_named(
    reader: Reader<'_>,
    name: &str,
    organization: i64,
) -> Result<Domain, ApiError> {
    let sql =
        format!("SELECT {COLUMNS} FROM domain WHERE (name = ?1 OR id = ?1) AND organization = ?2");
    match reader.find(&sql, (name, organization), read)? {
        Some(domain) => Ok(domain),
        None => Err(ApiError::not_found(&format!("domain{}", elsewhere(reader, name)?))),
    }
}

/// The end of an error message about a domain that this organization does not have: which one has
/// it, if any.
pub(crate) fn elsewhere(reader: Reader<'_>, name: &str) -> Result<String, ApiError> {
    let sql = "SELECT organization FROM domain WHERE name = ?1 OR id = ?1 ORDER BY id LIMIT 1";
    let owner: Option<i64> = reader.find(sql, [name], |row| row.get(0))?;
    owner.map_or_else(|| Ok(String::new()), |owner| organizations::has_it(reader, owner))
}

/// Whether an organization may send from this domain. A subdomain of a verified domain
/// must be verified itself (`docs/undocumented/services.md#addresses`).
pub(crate) fn is_verified(
    reader: Reader<'_>,
    organization: i64,
    domain: &str,
) -> Result<bool, ApiError> {
    let sql = format!("SELECT 1 FROM domain WHERE name = ?1 AND organization = ?2 AND {VERIFIED}");
    Ok(reader.find(&sql, (domain, organization), |_| Ok(()))?.is_some())
}

/// The name of the oldest verified domain.
pub(crate) fn first_verified(reader: Reader<'_>) -> Result<Option<String>, ApiError> {
    let sql = format!("SELECT name FROM domain WHERE {VERIFIED} ORDER BY id LIMIT 1");
    Ok(reader.find(&sql, [], |row| row.get(0))?)
}

/// The verified domains with this name, each as domain id and organization. Several
/// organizations may have the same domain.
pub(crate) fn owners(
    reader: Reader<'_>,
    domain: &str,
    organization: Option<i64>,
) -> Result<Vec<(String, i64)>, ApiError> {
    let sql = format!(
        "SELECT id, organization FROM domain
         WHERE name = ?1 AND {VERIFIED} AND (?2 IS NULL OR organization = ?2)
         ORDER BY id"
    );
    reader.all(&sql, (domain, organization), |row| Ok((row.get(0)?, row.get(1)?)))
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
) -> Result<Option<Signer>, ApiError> {
    let sql =
        "SELECT dkim_selector, dkim_private FROM domain WHERE name = ?1 AND organization = ?2";
    Ok(reader.find(sql, (domain, organization), |row| {
        Ok(Signer { selector: row.get(0)?, key: Zeroizing::new(row.get(1)?) })
    })?)
}

const VERIFIED: &str = "mx_verified AND spf_verified AND dkim_verified AND dmarc_verified";

const COLUMNS: &str = "id, organization, name, dkim_selector, dkim_public, mx_verified, \
                       spf_verified, dkim_verified, dmarc_verified, created_at, updated_at";

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

//! The life of a domain: its key, its records in the built-in zone, its verification.

use std::sync::Arc;

use crate::domains::domain_rows::{self, Domain, Flags};
use crate::keys::key_rows::random_hex;
use crate::mail::dkim::{SANDBOX_KEY, SigningKey};
use crate::mail::dns::Zone;
use crate::model::{DomainName, Failure, RecordKind, Result};
use crate::store::Tx;

/// The seeded domain, which has the same selector everywhere.
pub(crate) const SANDBOX_DOMAIN: &str = "sandbox.test";

/// The name of a sending domain, in normalized form.
pub(crate) fn parse_name(field: &str, text: &str) -> Result<DomainName> {
    let name = DomainName::parse(text).ok();
    name.filter(|name| name.as_str().contains('.'))
        .ok_or_else(|| Failure::field(field, "must be a domain name such as mail.example.com"))
}

/// Inserts a domain with this private key, and a random selector.
pub(crate) fn insert(tx: &Tx<'_>, organization: i64, name: &str, key: &[u8]) -> Result<Domain> {
    let selector = match name {
        // On a public server, each has a key of its own.
        SANDBOX_DOMAIN if key == SANDBOX_KEY => "sandbox".to_owned(),
        _ => format!("svc{}", random_hex::<4>()?),
    };
    let record = SigningKey::from_pkcs8(key)?.record();
    domain_rows::insert(tx, organization, name, &selector, key, &record)
}

/// Stores DNS records of a domain. [`update_zone`] publishes them.
pub(crate) fn publish_records(
    tx: &Tx<'_>,
    organization: i64,
    domain: &Domain,
    kinds: &[RecordKind],
) -> Result<()> {
    for record in domain
        .records
        .iter()
        .filter(|record| kinds.contains(&record.kind))
    {
        domain_rows::put_record(tx, organization, domain, record)?;
    }
    Ok(())
}

/// The built-in zone has the stored records of a domain, once the transaction commits.
pub(crate) fn update_zone_of(tx: &mut Tx<'_>, zone: &Arc<Zone>, domain: &str) -> Result<()> {
    let records = domain_rows::records_of(tx.reader(), domain)?;
    let zone = Arc::clone(zone);
    let domain = domain.to_owned();
    tx.after_commit(move || zone.set_domain(&domain, &records));
    Ok(())
}

/// The built-in zone has all stored records, once the transaction commits.
pub(crate) fn update_zone(tx: &mut Tx<'_>, zone: &Arc<Zone>) -> Result<()> {
    let zone = Arc::clone(zone);
    let records = domain_rows::all_records(tx.reader())?;
    tx.after_commit(move || zone.set(&records));
    Ok(())
}

/// Stores the records of a domain, and marks it as verified.
pub(crate) fn verify_domain(tx: &Tx<'_>, organization: i64, domain: &mut Domain) -> Result<()> {
    domain_rows::set_flags(tx, organization, domain, Flags::of(|_| true))?;
    publish_records(tx, organization, domain, &RecordKind::ALL)
}

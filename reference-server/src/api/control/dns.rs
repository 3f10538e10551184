//! `/_sandbox/dns/{domain}`: publishes the DNS records of a sending domain in the
//! built-in zone, and withdraws them.

use std::sync::Arc;

use crate::api::framework::{ControlCall, Input};
use crate::control::domains::{Publish, Published};
use crate::mail::dns::{Zone, is_reserved};
use crate::model::address::DomainName;
use crate::model::dns::{Record, RecordKind};
use crate::model::error::ApiError;
use crate::store::domains::{self, Domain};
use crate::store::{Tx, dns_records};

pub(crate) async fn publish(call: ControlCall<Publish>) -> Result<Published, ApiError> {
    let domain = domain_param(&call.input);
    let kinds = call
        .body
        .records
        .unwrap_or_else(|| RecordKind::ALL.to_vec());
    let published = call.data.write(move |tx, app, organization| {
        let domain = domains::find_named(tx.reader(), &domain, organization)?;
        if !is_reserved(&domain.name) {
            let message = "is not a name under .test, .example, .invalid or .localhost; \
                           publish its records at its DNS provider";
            return Err(ApiError::field("domain", message));
        }
        publish_records(tx, organization, &domain, &kinds)?;
        update_zone_of(tx, &app.zone, &domain.name)?;
        let published = |record: &Record| kinds.contains(&record.kind);
        Ok(Published {
            published: domain.records.into_iter().filter(published).collect(),
        })
    });
    published.await
}

pub(crate) async fn withdraw(call: ControlCall) -> Result<(), ApiError> {
    let kind: Option<RecordKind> = match call.input.param("record") {
        "" => None,
        text => {
            let unknown = |_| ApiError::field("record", "must be one of mx, spf, dkim, dmarc");
            Some(text.parse().map_err(unknown)?)
        }
    };
    let domain = domain_param(&call.input);
    let withdrawn = call.data.write(move |tx, app, organization| {
        let named = dns_records::domain_of(tx.reader(), &domain)?;
        // The domain itself may already be deleted.
        if !dns_records::delete(tx, organization, &domain, kind)? {
            domains::find_named(tx.reader(), &domain, organization)?;
        }
        update_zone_of(tx, &app.zone, &named.unwrap_or(domain))
    });
    withdrawn.await
}

/// Stores DNS records of a domain. [`update_zone`] publishes them.
pub(crate) fn publish_records(
    tx: &Tx<'_>,
    organization: i64,
    domain: &Domain,
    kinds: &[RecordKind],
) -> Result<(), ApiError> {
    for record in domain
        .records
        .iter()
        .filter(|record| kinds.contains(&record.kind))
    {
        dns_records::put(tx, organization, domain, record)?;
    }
    Ok(())
}

/// The built-in zone has the stored records of a domain, once the transaction commits.
pub(crate) fn update_zone_of(
    tx: &mut Tx<'_>,
    zone: &Arc<Zone>,
    domain: &str,
) -> Result<(), ApiError> {
    let records = dns_records::of_domain(tx.reader(), domain)?;
    let (zone, domain) = (Arc::clone(zone), domain.to_owned());
    tx.after_commit(move || zone.set_domain(&domain, &records));
    Ok(())
}

/// The built-in zone has all stored records, once the transaction commits.
pub(crate) fn update_zone(tx: &mut Tx<'_>, zone: &Arc<Zone>) -> Result<(), ApiError> {
    let (zone, records) = (Arc::clone(zone), dns_records::all(tx.reader())?);
    tx.after_commit(move || zone.set(&records));
    Ok(())
}

/// The domain in the path: a name in normalized form, or an ID.
fn domain_param(input: &Input) -> String {
    let name_or_id = input.param("domain");
    match DomainName::parse(name_or_id) {
        Ok(name) => name.as_str().to_owned(),
        Err(_) => name_or_id.to_owned(),
    }
}

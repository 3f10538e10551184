//! The handlers of sending domains and their verification
//! (`docs/email-service/contacts-and-domains.md#sending-domains`), and of `/_sandbox/dns`, which
//! publishes their records in the built-in zone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domains::domain_rows::{self, Domain, Flags};
use crate::domains::domain_rules::{insert, parse_name, publish_records, update_zone_of};
use crate::domains::domain_wire::{Publish, Published};
use crate::http::input::required_name;
use crate::http::{Call, ControlCall, Input, Reply};
use crate::mail::dkim;
use crate::mail::dns::{self, is_reserved};
use crate::model::{DomainName, Failure, Record, RecordKind, Result};
use crate::runtime::heavy;

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CreateDomain")]
pub(crate) struct New {
    /// A domain name with at least two labels. It may be internationalized.
    #[schemars(required, extend("format" = "domain-name", "minLength" = 3))]
    name: Option<String>,
}

/// The documented response to a deletion.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeletedDomain")]
pub(crate) struct Deleted {
    #[schemars(extend("const" = true))]
    ok: bool,
}

pub(crate) async fn create(call: Call<New>) -> Result<Reply<Domain>> {
    let name = required_name(call.body().await?.name)?;
    let name = parse_name("name", &name)?;
    let exposed = call.app.settings.is_exposed();
    let is_reserved = is_reserved(name.as_str());
    let key = heavy::run(move || dkim::new_key(is_reserved, exposed)).await?;
    call.create(move |tx, _, organization| insert(tx, organization, name.as_str(), &key))
        .await
}

/// Checks the four DNS records. A flag can change back to `false`
/// (`docs/undocumented/services.md#repeated-verification`).
pub(crate) async fn verify(call: Call) -> Result<Domain> {
    let id = call.id();
    let wanted = call.id();
    let found = call
        .read(move |reader, of| reader.get::<Domain>(&wanted, of))
        .await?;
    let checks = dns::check(&call.app.resolver, &found.records).await;
    let passed = |kind| {
        checks
            .iter()
            .any(|check| check.kind == kind && check.passed)
    };

    let flags = Flags::of(passed);
    let domain = call.write(move |tx, _, organization| {
        let mut domain: Domain = tx.reader().get(&id, organization)?;
        domain_rows::set_flags(tx, organization, &mut domain, flags)?;
        domain.checks = Some(checks);
        Ok(domain)
    });
    domain.await
}

/// Deletes a domain with its DKIM key, its mailboxes and their messages
/// (`docs/undocumented/services.md#mailboxes`). Published DNS records stay, because
/// they belong to the owner of the domain.
pub(crate) async fn delete(call: Call) -> Result<Deleted> {
    let id = call.id();
    call.write(move |tx, _, of| tx.delete::<Domain>(&id, of))
        .await?;
    Ok(Deleted { ok: true })
}

pub(crate) async fn publish(call: ControlCall<Publish>) -> Result<Published> {
    let domain = domain_param(&call);
    let kinds = call
        .body
        .records
        .unwrap_or_else(|| RecordKind::ALL.to_vec());
    let published = call.input.write(move |tx, app, organization| {
        let domain = domain_rows::find_named(tx.reader(), &domain, organization)?;
        if !is_reserved(&domain.name) {
            let message = "is not a name under .test, .example, .invalid or .localhost; \
                           publish its records at its DNS provider";
            return Err(Failure::field("domain", message));
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

pub(crate) async fn withdraw(call: ControlCall) -> Result<()> {
    let kind: Option<RecordKind> = match call.param("record") {
        "" => None,
        text => {
            let unknown = |_| Failure::field("record", "must be one of mx, spf, dkim, dmarc");
            Some(text.parse().map_err(unknown)?)
        }
    };
    let domain = domain_param(&call);
    let withdrawn = call.write(move |tx, app, organization| {
        let named = domain_rows::domain_of_records(tx.reader(), &domain)?;
        // The domain itself may already be deleted.
        if !domain_rows::delete_records(tx, organization, &domain, kind)? {
            domain_rows::find_named(tx.reader(), &domain, organization)?;
        }
        update_zone_of(tx, &app.zone, &named.unwrap_or(domain))
    });
    withdrawn.await
}

/// The domain in the path: a name in normalized form, or an ID.
fn domain_param(input: &Input) -> String {
    let name_or_id = input.param("domain");
    match DomainName::parse(name_or_id) {
        Ok(name) => name.as_str().to_owned(),
        Err(_) => name_or_id.to_owned(),
    }
}

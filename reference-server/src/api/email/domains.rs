//! Sending domains and their verification (`docs/email-service/contacts-and-domains.md#sending-domains`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audiences::required_name;
use crate::api::framework::{Call, Reply};
use crate::mail::dkim::{self, SANDBOX_KEY, SigningKey};
use crate::mail::dns::{self, is_reserved};
use crate::model::address::DomainName;
use crate::model::dns::RecordKind;
use crate::model::error::ApiError;
use crate::runtime::heavy;
use crate::store::Tx;
use crate::store::domains::{self, Domain, Flags};
use crate::store::keys::random_hex;

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

pub(crate) async fn create(call: Call<New>) -> Result<Reply<Domain>, ApiError> {
    let name = required_name(call.read().await?.name)?;
    let name = DomainName::parse(&name)
        .ok()
        .filter(|name| name.as_str().contains('.'));
    let Some(name) = name else {
        return Err(ApiError::field(
            "name",
            "must be a domain name such as mail.example.com",
        ));
    };
    let exposed = call.data.app.settings.is_exposed();
    let is_reserved = is_reserved(name.as_str());
    let key = heavy::run(move || dkim::new_key(is_reserved, exposed)).await?;
    call.create(move |tx, _, organization| insert(tx, organization, name.as_str(), &key))
        .await
}

/// The seeded domain, which has the same selector everywhere.
pub(crate) const SANDBOX_DOMAIN: &str = "sandbox.test";

/// Inserts a domain with this private key, and a random selector.
pub(crate) fn insert(
    tx: &Tx<'_>,
    organization: i64,
    name: &str,
    key: &[u8],
) -> Result<Domain, ApiError> {
    let selector = match name {
        // On a public server, each has a key of its own.
        SANDBOX_DOMAIN if key == SANDBOX_KEY => "sandbox".to_owned(),
        _ => format!("svc{}", random_hex::<4>()?),
    };
    let record = SigningKey::from_pkcs8(key)?.record();
    domains::insert(tx, organization, name, &selector, key, &record)
}

pub(crate) async fn list(call: Call) -> Result<Reply<Vec<Domain>>, ApiError> {
    call.reply(
        call.data
            .read(|reader, of| reader.page(of, "", i64::MAX))
            .await?,
    )
}

/// Checks the four DNS records. A flag can change back to `false`
/// (`docs/undocumented/services.md#repeated-verification`).
pub(crate) async fn verify(call: Call) -> Result<Reply<Domain>, ApiError> {
    let (id, wanted) = (call.id(), call.id());
    let found = call
        .data
        .read(move |reader, of| reader.get::<Domain>(&wanted, of))
        .await?;
    let checks = dns::check(&call.data.app.resolver, &found.records).await;
    let passed = |kind| {
        checks
            .iter()
            .any(|check| check.kind == kind && check.passed)
    };
    let flags = Flags {
        mx_verified: passed(RecordKind::Mx),
        spf_verified: passed(RecordKind::Spf),
        dkim_verified: passed(RecordKind::Dkim),
        dmarc_verified: passed(RecordKind::Dmarc),
        verified: RecordKind::ALL.into_iter().all(passed),
    };
    let domain = call.data.write(move |tx, _, organization| {
        let mut domain: Domain = tx.reader().get(&id, organization)?;
        domains::set_flags(tx, organization, &mut domain, flags)?;
        domain.checks = Some(checks);
        Ok(domain)
    });
    call.reply(domain.await?)
}

/// Deletes a domain with its DKIM key, its mailboxes and their messages
/// (`docs/undocumented/services.md#mailboxes`). Published DNS records stay, because
/// they belong to the owner of the domain.
pub(crate) async fn delete(call: Call) -> Result<Reply<Deleted>, ApiError> {
    let id = call.id();
    call.data
        .write(move |tx, _, of| tx.delete::<Domain>(&id, of))
        .await?;
    call.reply(Deleted { ok: true })
}

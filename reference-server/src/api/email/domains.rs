//! Sending domains and their verification (`docs/email-service/contacts-and-domains.md#sending-domains`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::audiences::required_name;
use crate::api::framework::{Call, Created, Json, List, Resource};
use crate::mail::dkim::{self, SigningKey};
use crate::mail::dns::{self, Check, is_reserved};
use crate::model::address::DomainName;
use crate::model::dns::{Record, RecordKind};
use crate::model::error::ApiError;
use crate::model::schema;
use crate::model::time;
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

/// A sending domain.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Domain")]
pub(crate) struct DomainJson<'a> {
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

pub(crate) fn view<'a>(domain: &'a Domain, checks: Option<&'a [Check]>) -> DomainJson<'a> {
    DomainJson {
        id: &domain.id,
        name: &domain.name,
        flags: domain.flags,
        records: domain.records(),
        checks,
        created_at: time::rfc3339(domain.created_at),
        updated_at: time::rfc3339(domain.updated_at),
    }
}

pub(crate) async fn create(mut call: Call<New>) -> Result<Created<DomainJson<'static>>, ApiError> {
    let (new, bytes) = call.read().await?;
    let name = required_name(new.name)?;
    let name = DomainName::parse(&name).ok().filter(|name| name.as_str().contains('.'));
    let Some(name) = name else {
        return Err(ApiError::field("name", "must be a domain name such as mail.example.com"));
    };
    let exposed = call.data.app.settings.is_exposed();
    let key = match dkim::ready_key(is_reserved(name.as_str()), exposed) {
        Some(key) => key,
        None => dkim::new_key().await.map_err(ApiError::internal)?,
    };
    let create = call.create(&bytes, move |tx, app, organization| {
        let domain = insert(tx, organization, name.as_str(), None, &key)?;
        Created::new(app, &view(&domain, None))
    });
    create.await
}

/// Inserts a domain with this private key, by default with a random selector.
pub(crate) fn insert(
    tx: &Tx<'_>,
    organization: i64,
    name: &str,
    selector: Option<&str>,
    key: &[u8],
) -> Result<Domain, ApiError> {
    let selector = match selector {
        Some(selector) => selector.to_owned(),
        None => format!("svc{}", random_hex::<4>()?),
    };
    let record = SigningKey::from_pkcs8(key).map_err(ApiError::internal)?.record();
    domains::insert(tx, organization, name, selector, key, record)
}

pub(crate) async fn list(call: Call) -> Result<List<DomainJson<'static>>, ApiError> {
    let all = call.data.read(|reader, of| reader.page(of, "", i64::MAX)).await?;
    List::new(&call.data.app, &all.iter().map(|domain| view(domain, None)).collect())
}

/// Checks the four DNS records. A flag can change back to `false`
/// (`docs/undocumented/services.md#repeated-verification`).
pub(crate) async fn verify(mut call: Call) -> Result<Resource<DomainJson<'static>>, ApiError> {
    let (id, wanted) = (call.id(), call.id());
    let found = call.data.read(move |reader, of| reader.get::<Domain>(&wanted, of)).await?;
    // The operation has no body. If a client sends one, it is read, so that the connection stays usable.
    call.input.bytes().await?;
    let checks = dns::check(&call.data.app.resolver, &found.records()).await;
    let passed = |kind| checks.iter().any(|check| check.kind == kind && check.passed);
    let flags = Flags {
        mx_verified: passed(RecordKind::Mx),
        spf_verified: passed(RecordKind::Spf),
        dkim_verified: passed(RecordKind::Dkim),
        dmarc_verified: passed(RecordKind::Dmarc),
        verified: RecordKind::ALL.into_iter().all(passed),
    };
    let domain = call.data.write(move |tx, _, organization| {
        let mut domain = tx.reader().get(&id, organization)?;
        domains::set_flags(tx, &mut domain, flags)?;
        Ok(domain)
    });
    Resource::new(&call.data.app, &view(&domain.await?, Some(&checks)))
}

/// Deletes a domain with its DKIM key, its mailboxes and their messages
/// (`docs/undocumented/services.md#mailboxes`). Published DNS records stay, because
/// they belong to the owner of the domain.
pub(crate) async fn delete(call: Call) -> Result<Json<Deleted>, ApiError> {
    let id = call.id();
    call.data.write(move |tx, _, of| tx.delete::<Domain>(&id, of)).await?;
    Json::of(&Deleted { ok: true })
}

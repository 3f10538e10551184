//! Contacts of an audience (`docs/email-service/contacts-and-domains.md#contacts`).

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::pages::{Page, Paged};
use crate::api::framework::{Call, Reply};
use crate::model::address::{Address, without_final_dot};
use crate::model::error::ApiError;
use crate::store::audiences::Audience;
use crate::store::contacts::{self, Contact};

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "CreateContact")]
pub(crate) struct New {
    #[schemars(required, email)]
    email: Option<String>,
    name: Option<String>,
    metadata: Option<Map<String, Value>>,
    topics: Option<Vec<String>>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ContactUpdate")]
pub(crate) struct Update {
    /// Read-only: accepted only with the current value
    /// (`docs/undocumented/README.md#unknown-request-fields`).
    #[schemars(skip)]
    email: Option<String>,
    #[serde(default, deserialize_with = "present")]
    name: Option<Option<String>>,
    /// Merged into the existing metadata, key by key. A null value removes the key.
    metadata: Option<Map<String, Value>>,
    /// Replaces the existing topics.
    topics: Option<Vec<String>>,
    subscribed: Option<bool>,
}

pub(crate) async fn create(call: Call<New>) -> Result<Reply<Contact>, ApiError> {
    let (audience, wanted) = (call.id(), call.id());
    call.data
        .read(move |reader, of| reader.get::<Audience>(&wanted, of))
        .await?;
    let new = call.read().await?;
    let email = new
        .email
        .ok_or_else(|| ApiError::field("email", "is required"))?;
    let address = Address::parse(&email);
    let address = address.map_err(|error| ApiError::field("email", error.to_string()))?;
    let email = address.as_str().to_owned();
    let mut metadata = new.metadata.unwrap_or_default();
    metadata.retain(|_, value| !value.is_null());
    let topics = new.topics.unwrap_or_default();
    check_size(new.name.as_deref(), &metadata, &topics)?;
    let create = call.create(move |tx, _, organization| {
        let mut contact = Contact::new(audience, email, tx.now);
        (contact.name, contact.metadata, contact.topics) = (new.name, metadata, topics);
        contacts::insert(tx, organization, &contact)?;
        Ok(contact)
    });
    create.await
}

/// Maximum size of a contact, in bytes: a page contains many (`reference-server/LIMITS.md`).
const MAX_SIZE: usize = 64 << 10;

/// Returns an error if a contact with these values would be too large.
pub(crate) fn check_size(
    name: Option<&str>,
    metadata: &Map<String, Value>,
    topics: &[String],
) -> Result<(), ApiError> {
    let json = serde_json::to_string(&(name, metadata, topics)).map_err(ApiError::internal)?;
    if json.len() <= MAX_SIZE {
        return Ok(());
    }
    let size = json.len();
    let message =
        format!("has, with name and topics, {size} bytes as JSON; at most {MAX_SIZE} are allowed");
    Err(ApiError::field("metadata", message))
}

pub(crate) async fn list(call: Call) -> Result<Reply<Paged<Contact>>, ApiError> {
    let audience = call.id();
    let page = Page::from_query(&call.input.query(), call.dialect());
    let found = call.data.read(move |reader, organization| {
        // Check for 404 before 422 (`docs/undocumented/README.md#order-of-checks`).
        reader.get::<Audience>(&audience, organization)?;
        let page = page?;
        let total = contacts::count(reader, &audience)?;
        let contacts = contacts::list(reader, &audience, "", page.size, page.offset())?;
        Ok((page, contacts, total))
    });
    let (page, contacts, total) = found.await?;
    page.reply(&call, contacts, total)
}

pub(crate) async fn update(call: Call<Update>) -> Result<Reply<Contact>, ApiError> {
    let (id, update) = (call.id(), call.read().await);
    let updated = call.data.write(move |tx, _, organization| {
        let mut contact = tx.reader().get(&id, organization)?;
        if update?.apply(&mut contact)? {
            tx.update(organization, &mut contact)?;
        }
        Ok(contact)
    });
    call.reply(updated.await?)
}

impl Update {
    /// Updates the contact and returns whether anything changed
    /// (`docs/undocumented/README.md#empty-updates`).
    fn apply(self, contact: &mut Contact) -> Result<bool, ApiError> {
        if self
            .email
            .is_some_and(|email| without_final_dot(email) != contact.email)
        {
            return Err(ApiError::field("email", "cannot be changed"));
        }
        let before = contact.clone();
        if let Some(name) = self.name {
            contact.name = name;
        }
        // The merge is shallow (`docs/undocumented/services.md#metadata-merge`).
        for (key, value) in self.metadata.unwrap_or_default() {
            if value.is_null() {
                // Keeps the order of the others, whether or not `serde_json` does.
                contact.metadata.retain(|name, _| *name != key);
            } else {
                contact.metadata.insert(key, value);
            }
        }
        if let Some(topics) = self.topics {
            contact.topics = topics;
        }
        if let Some(subscribed) = self.subscribed {
            contact.subscribed = subscribed;
        }
        check_size(contact.name.as_deref(), &contact.metadata, &contact.topics)?;
        Ok(*contact != before)
    }
}

pub(crate) async fn delete(call: Call) -> Result<Reply<()>, ApiError> {
    let id = call.id();
    call.reply(
        call.data
            .write(move |tx, _, of| tx.delete::<Contact>(&id, of))
            .await?,
    )
}

/// Deserializes a field that is present, even as null. With `default`, an absent field is
/// `None`.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

//! The handlers of contacts (`docs/email-service/contacts-and-domains.md#contacts`), with their pages
//! (`docs/undocumented/services.md#contact-pages`).

use std::collections::HashMap;

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use svc_sdk::{Dialect, Point};

use crate::audiences::audience_rows::Audience;
use crate::contacts::contact_rows::{self, Contact, check_size};
use crate::control::Page;
use crate::http::{Call, ControlCall, Reply};
use crate::model::address::without_final_dot;
use crate::model::{Address, Failure, Problems, Result};

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
    #[schemars(with = "String", extend("readOnly" = true))]
    email: Option<String>,
    #[serde(default, deserialize_with = "present")]
    name: Option<Option<String>>,
    /// Merged into the existing metadata, key by key. A null value removes the key.
    metadata: Option<Map<String, Value>>,
    /// Replaces the existing topics.
    topics: Option<Vec<String>>,
    subscribed: Option<bool>,
}

pub(crate) async fn create(call: Call<New>) -> Result<Reply<Contact>> {
    let audience = call.id();
    let wanted = call.id();
    call.read(move |reader, of| reader.get::<Audience>(&wanted, of))
        .await?;
    let new = call.body().await?;
    let email = new
        .email
        .ok_or_else(|| Failure::field("email", "is required"))?;
    let address = Address::parse(&email);
    let address = address.map_err(|error| Failure::field("email", error.to_string()))?;
    let email = address.as_str().to_owned();
    let mut metadata = new.metadata.unwrap_or_default();
    metadata.retain(|_, value| !value.is_null());
    let topics = new.topics.unwrap_or_default();
    check_size(new.name.as_deref(), &metadata, &topics)?;
    let create = call.create(move |tx, _, organization| {
        let mut contact = Contact::new(audience, email, tx.now);
        (contact.name, contact.metadata, contact.topics) = (new.name, metadata, topics);
        contact_rows::insert(tx, organization, &contact)?;
        Ok(contact)
    });
    create.await
}

pub(crate) async fn list(call: Call) -> Result<ContactPage> {
    let audience = call.id();
    let first = first(call.dialect());
    let page = read_page(&call.query(), first);
    let found = call.read(move |reader, organization| {
        // Check for 404 before 422 (`docs/undocumented/README.md#order-of-checks`).
        reader.get::<Audience>(&audience, organization)?;
        let (page, page_size) = page?;
        let offset = (page - first) * page_size;
        let total = contact_rows::count(reader, &audience)?;
        Ok(ContactPage {
            data: contact_rows::list(reader, &audience, "", page_size, offset)?,
            page,
            page_size,
            total,
            total_pages: (total + page_size - 1) / page_size,
        })
    });
    found.await
}

pub(crate) async fn update(call: Call<Update>) -> Result<Contact> {
    let id = call.id();
    let update = call.body().await;
    let updated = call.write(move |tx, _, organization| {
        let mut contact = tx.reader().get(&id, organization)?;
        if update?.apply(&mut contact)? {
            tx.update(organization, &mut contact)?;
        }
        Ok(contact)
    });
    updated.await
}

impl Update {
    /// Updates the contact and returns whether anything changed
    /// (`docs/undocumented/README.md#empty-updates`).
    fn apply(self, contact: &mut Contact) -> Result<bool> {
        if self
            .email
            .is_some_and(|email| without_final_dot(email) != contact.email)
        {
            return Err(Failure::field("email", "cannot be changed"));
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

/// Deserializes a field that is present, even as null. With `default`, an absent field is
/// `None`.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

const DEFAULT_SIZE: i64 = 20;
const MAX_PAGE_SIZE: i64 = 100;
const LAST_PAGE: i64 = i32::MAX as i64;

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ContactNumberedPage")]
pub(crate) struct ContactPage {
    data: Vec<Contact>,
    page: i64,
    page_size: i64,
    total: i64,
    total_pages: i64,
}

/// The number and the size of the requested page.
fn read_page(query: &HashMap<String, String>, first: i64) -> Result<(i64, i64)> {
    let mut problems = Problems::default();
    let mut number = |name: &str, min: i64, max: i64, default: i64| {
        let Some(text) = query.get(name) else {
            return default;
        };
        let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if is_digits && (min..=max).contains(&number) => number,
            _ => {
                problems.add(name, format!("must be an integer from {min} to {max}"));
                default
            }
        }
    };

    let page = number("page", first, LAST_PAGE, first);
    let size = number("pageSize", 1, MAX_PAGE_SIZE, DEFAULT_SIZE);
    problems.check()?;
    Ok((page, size))
}

/// The two query parameters, for the OpenAPI description.
pub(crate) fn describe_page(dialect: &Dialect) -> Vec<Value> {
    let first = first(dialect);
    let parameter = |name, description, min, max, default| {
        json!({
            "name": name,
            "in": "query",
            "description": description,
            "schema":
                {"type": "integer", "minimum": min, "maximum": max, "default": default},
        })
    };
    vec![
        parameter("page", "The number of the page.", first, LAST_PAGE, first),
        parameter(
            "pageSize",
            "Contacts per page.",
            1,
            MAX_PAGE_SIZE,
            DEFAULT_SIZE,
        ),
    ]
}

/// The number of the first page (`docs/undocumented/services.md#contact-pages`).
fn first(dialect: &Dialect) -> i64 {
    i64::from(dialect.is(Point::FirstPage, "1"))
}

/// Lists one page of the contacts of an audience, oldest first.
pub(crate) async fn list_all(call: ControlCall) -> Result<Reply<Page<Contact>>> {
    let audience = call.input.id();
    let limit = call.limit;
    let cursor = call.cursor.unwrap_or_default();
    let found = call.input.read(move |reader, organization| {
        reader.get::<Audience>(&audience, organization)?;
        contact_rows::list(reader, &audience, &cursor, limit as i64 + 1, 0)
    });
    Reply::json(
        StatusCode::OK,
        &Page::of(found.await?, limit, |last| last.id.clone()),
    )
}

//! Contacts of audiences (`docs/email-service/audiences.md#contacts`).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::check_extra;

use crate::client::{Call, Deleted, Payload, Resource, Shared};
use crate::decode::record;
use crate::request::request_type;

use crate::{Error, List, Operation};

pub use super::contact_pages::{ContactPages, ContactStream};

record! {
    /// A contact of an audience.
    pub struct Contact {
        /// The contact's id; empty if the response has none.
        pub id: String = "id";
        /// The email address.
        pub email: Option<String> = "email", hidden;
        /// The display name.
        pub name: Option<String> = "name", hidden;
        /// Custom data.
        pub metadata: Map<String, Value> = "metadata", hidden;
        /// Subscription topics.
        pub topics: Vec<String> = "topics";
        /// Whether the contact is subscribed.
        pub subscribed: Option<bool> = "subscribed";
    }
}

impl Resource for Contact {
    const NOUN: &'static str = "a contact";

    fn is_identified(&self) -> bool {
        !self.id.is_empty()
    }
}

/// The parameters of a new contact. A string converts into one with that email address.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewContact {
    /// The email address. It cannot be changed later.
    pub email: String,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Custom data.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Subscription topics.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// Additional fields without a setter of their own; sent as given.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

request_type!(NewContact);

impl NewContact {
    /// Creates the parameters for a contact with this email address.
    pub fn new(email: impl Into<String>) -> Self {
        Self {
            email: email.into(),
            name: None,
            metadata: Map::new(),
            topics: Vec::new(),
            extra: Map::new(),
        }
    }

    /// Sets the display name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds a field of custom data.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Adds a subscription topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topics.push(topic.into());
        self
    }
}

impl<T: Into<String>> From<T> for NewContact {
    fn from(email: T) -> Self {
        Self::new(email)
    }
}

/// Omits the content.
impl fmt::Debug for NewContact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewContact").field("topics", &self.topics).finish_non_exhaustive()
    }
}

/// Changes to a contact. Fields that are not set stay unchanged.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContactUpdate {
    /// The display name. `None` leaves it unchanged, `Some(None)` clears it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub name: Option<Option<String>>,
    /// Custom data, merged into the existing data
    /// (`docs/undocumented/email-service.md#metadata-merge`).
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Subscription topics, which replace the existing ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<String>>,
    /// Whether the contact is subscribed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscribed: Option<bool>,
    /// Additional fields without a setter of their own; sent as given.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

request_type!(ContactUpdate);

impl ContactUpdate {
    /// Creates an empty update.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the display name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(Some(name.into()));
        self
    }

    /// Clears the display name: it is sent as `null`
    /// (`docs/undocumented/email-service.md#clearing-a-name`).
    ///
    /// ```
    /// use svc_sdk::email::ContactUpdate;
    ///
    /// let update = ContactUpdate::new().clear_name();
    /// assert_eq!(serde_json::to_string(&update)?, r#"{"name":null}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn clear_name(mut self) -> Self {
        self.name = Some(None);
        self
    }

    /// Adds a field of custom data, merged into the existing data.
    #[must_use]
    pub fn metadata(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.metadata.insert(name.into(), value.into());
        self
    }

    /// Replaces the subscription topics. An empty list removes all of them.
    #[must_use]
    pub fn topics<T: Into<String>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics = Some(topics.into_iter().map(Into::into).collect());
        self
    }

    /// Subscribes or unsubscribes the contact.
    #[must_use]
    pub fn subscribed(mut self, subscribed: bool) -> Self {
        self.subscribed = Some(subscribed);
        self
    }
}

/// Omits the content.
impl fmt::Debug for ContactUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContactUpdate")
            .field("topics", &self.topics)
            .field("subscribed", &self.subscribed)
            .finish_non_exhaustive()
    }
}

/// Keeps a `null` apart from a missing field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// The operations on contacts. All of them require the scope `contacts:manage`.
#[derive(Clone, Debug)]
pub struct Contacts {
    pub(crate) shared: std::sync::Arc<Shared>,
}

impl Contacts {
    /// Adds a contact to an audience. `contact` can be an email address.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use svc_sdk::email::NewContact;
    ///
    /// let contact = NewContact::new("ada@example.com").name("Ada").topic("news");
    /// let contact = client.contacts().create("aud_1", contact).await?;
    /// println!("{}", contact.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(
        &self,
        audience: impl AsRef<str>,
        contact: impl Into<NewContact>,
    ) -> Call<Contact> {
        let contact = contact.into();
        let payload = || -> Result<Payload, Error> {
            if self.shared.local_checks() {
                super::limits::contact_address(&contact.email)?;
            }
            check_extra(
                &contact.extra,
                &[
                    ("email", true),
                    ("name", contact.name.is_some()),
                    ("metadata", !contact.metadata.is_empty()),
                    ("topics", !contact.topics.is_empty()),
                ],
            )?;
            Payload::json(&contact)
        };
        Call::new(&self.shared, Operation::ContactsCreate, &[audience.as_ref()], payload())
    }

    /// Returns one page of an audience's contacts: the first one, of the service's default
    /// size, unless [`page`](Call::page) and [`page_size`](Call::page_size) say otherwise.
    /// For all contacts, use [`stream`](Self::stream).
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// let contacts = client.contacts().list("aud_1").page(2).page_size(50).await?;
    /// println!("{} of {:?}", contacts.len(), contacts.total);
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, audience: impl AsRef<str>) -> Call<List<Contact>> {
        Call::new(&self.shared, Operation::ContactsList, &[audience.as_ref()], Ok(Payload::Empty))
    }

    /// Returns a stream of all contacts of an audience, which requests page after page.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use futures_util::TryStreamExt;
    ///
    /// let mut contacts = client.contacts().stream("aud_1").page_size(100);
    /// while let Some(contact) = contacts.try_next().await? {
    ///     println!("{}", contact.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&self, audience: impl AsRef<str>) -> ContactStream {
        ContactStream::new(self.clone(), audience.as_ref().to_owned())
    }

    /// Changes a contact. Custom data is merged into the existing data.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// use svc_sdk::email::ContactUpdate;
    ///
    /// let update = ContactUpdate::new().subscribed(false);
    /// client.contacts().update("con_1", update).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, id: impl AsRef<str>, update: impl Into<ContactUpdate>) -> Call<Contact> {
        let update = update.into();
        let payload = || -> Result<Payload, Error> {
            check_extra(
                &update.extra,
                &[
                    ("name", update.name.is_some()),
                    ("metadata", !update.metadata.is_empty()),
                    ("topics", update.topics.is_some()),
                    ("subscribed", update.subscribed.is_some()),
                ],
            )?;
            Payload::json(&update)
        };
        Call::new(&self.shared, Operation::ContactsUpdate, &[id.as_ref()], payload())
    }

    /// Deletes a contact.
    pub fn delete(&self, id: impl AsRef<str>) -> Call<Deleted> {
        Call::new(&self.shared, Operation::ContactsDelete, &[id.as_ref()], Ok(Payload::Empty))
    }
}

/// Which page of an audience's contacts to return.
impl Call<List<Contact>> {
    /// Sets the number of the page. Usually the first page is 1
    /// (`docs/undocumented/email-service.md#contact-pages`).
    pub fn page(self, page: u64) -> Self {
        self.with_query("page", Some(page))
    }

    /// Sets the maximum number of contacts per page.
    pub fn page_size(self, page_size: u64) -> Self {
        self.with_query("pageSize", Some(page_size))
    }
}

//! Contacts of audiences.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::message::can_be_address;
use super::paginator::{Paginator, Step};
use crate::decode::{self, Extra, resource};
use crate::engine::{Call, Deleted, Payload, Shared, payload, request_type};
use crate::error::{Error, InvalidInput};
use crate::list::List;
use crate::names::debug_fields;
use crate::operation::Operation;

/// A contact of an audience.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Contact {
    /// The contact's id; empty if the response has none.
    #[serde(
        deserialize_with = "decode::id",
        skip_serializing_if = "String::is_empty"
    )]
    pub id: String,
    /// The email address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Custom data.
    pub metadata: Map<String, Value>,
    /// Subscription topics.
    #[serde(deserialize_with = "decode::one_or_many")]
    pub topics: Vec<String>,
    /// Whether the contact is subscribed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscribed: Option<bool>,
    /// The other fields of the response.
    #[serde(flatten)]
    pub extra: Extra,
}

resource!(Contact, "a contact");

debug_fields!(Contact: id, topics, subscribed, extra);

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
    /// Additional fields; sent as given.
    #[serde(flatten)]
    pub extra: Extra,
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
            extra: Extra::default(),
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

debug_fields!(NewContact: topics);

/// Changes to a contact. Fields that are not set stay unchanged.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ContactUpdate {
    /// The display name. `None` leaves it unchanged, `Some(None)` clears it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub name: Option<Option<String>>,
    /// Custom data, merged into the existing data.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Subscription topics, which replace the existing ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<String>>,
    /// Whether the contact is subscribed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscribed: Option<bool>,
    /// Additional fields; sent as given.
    #[serde(flatten)]
    pub extra: Extra,
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

    /// Clears the display name: it is sent as `null`.
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

debug_fields!(ContactUpdate: topics, subscribed);

/// Keeps a `null` apart from a missing field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// The operations on contacts. All of them require the scope `contacts:manage`.
#[derive(Clone, Debug)]
pub struct Contacts {
    pub(crate) shared: Arc<Shared>,
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
        let is_refused = self.shared.settings.local_checks && !can_be_address(&contact.email);
        let payload = match is_refused {
            true => Err(InvalidInput::new("email", "not an email address, such as `a@b`").into()),
            false => payload(contact),
        };
        Call::new(
            &self.shared,
            Operation::ContactsCreate,
            &[audience.as_ref()],
            payload,
        )
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
        Call::new(
            &self.shared,
            Operation::ContactsList,
            &[audience.as_ref()],
            Ok(Payload::Empty),
        )
    }

    /// Returns a stream of all contacts of an audience, which requests page after page.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// let mut contacts = client.contacts().stream("aud_1").page_size(100);
    /// while let Some(contact) = contacts.try_next().await? {
    ///     println!("{}", contact.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&self, audience: impl AsRef<str>) -> ContactStream {
        let audience = audience.as_ref().to_owned();
        ContactStream {
            contacts: self.clone(),
            audience,
            page_size: None,
            contacts_left: None,
        }
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
        let payload = payload(update.into());
        Call::new(
            &self.shared,
            Operation::ContactsUpdate,
            &[id.as_ref()],
            payload,
        )
    }

    /// Deletes a contact.
    pub fn delete(&self, id: impl AsRef<str>) -> Call<Deleted> {
        Call::new(
            &self.shared,
            Operation::ContactsDelete,
            &[id.as_ref()],
            Ok(Payload::Empty),
        )
    }
}

/// Which page of an audience's contacts to return.
impl Call<List<Contact>> {
    /// Sets the number of the page. Usually the first page is 1.
    pub fn page(self, page: u64) -> Self {
        self.with_query("page", Some(page))
    }

    /// Sets the maximum number of contacts per page.
    pub fn page_size(self, page_size: u64) -> Self {
        self.with_query("pageSize", Some(page_size))
    }
}

/// A stream of all contacts of an audience. Requests the next page when the previous one is
/// used up. Returned by [`Contacts::stream`].
///
/// The stream ends after an error; contacts returned before it are valid. Pages are
/// requested by number, so if the list changes meanwhile, a contact may be repeated or
/// missed.
#[must_use = "a stream does nothing until it is polled"]
pub struct ContactStream {
    contacts: Contacts,
    audience: String,
    page_size: Option<u64>,
    contacts_left: Option<BoxStream<'static, Result<Contact, Error>>>,
}

impl ContactStream {
    /// Sets the number of contacts per request. By default, the service decides.
    pub fn page_size(mut self, page_size: u64) -> Self {
        self.page_size = Some(page_size);
        self
    }

    /// Returns the next contact, or `None` after the last one. [`Stream`]'s adapters do
    /// the same; this needs no further crate.
    ///
    /// # Errors
    ///
    /// The error of the request for the next page. The stream has then ended.
    pub async fn try_next(&mut self) -> Result<Option<Contact>, Error> {
        TryStreamExt::try_next(self).await
    }

    fn pages(&self) -> BoxStream<'static, Result<List<Contact>, Error>> {
        let (contacts, audience, page_size) =
            (self.contacts.clone(), self.audience.clone(), self.page_size);
        let paginator = Paginator::new(contacts.shared.settings.first_page);
        Box::pin(stream::try_unfold(Some(paginator), move |paginator| {
            let call = contacts.list(&audience);
            async move {
                let Some(mut paginator) = paginator else {
                    return Ok(None);
                };
                let call = call.with_query("page", paginator.next);
                let page = call.with_query("pageSize", page_size).await?;
                Ok(match paginator.step(&page)? {
                    Step::More => Some((page, Some(paginator))),
                    Step::Last => Some((page, None)),
                    Step::End => None,
                })
            }
        }))
    }
}

#[cfg(feature = "blocking")]
impl ContactStream {
    /// Returns a blocking iterator over the contacts, for programs without an async
    /// runtime.
    pub fn block_iter(mut self) -> impl Iterator<Item = Result<Contact, Error>> {
        std::iter::from_fn(move || {
            crate::engine::block(self.try_next())
                .and_then(|next| next)
                .transpose()
        })
    }
}

impl Stream for ContactStream {
    type Item = Result<Contact, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let each = |page: List<Contact>| stream::iter(page.items.into_iter().map(Ok));
        let mut contacts = match this.contacts_left.take() {
            Some(contacts) => contacts,
            None => this.pages().map_ok(each).try_flatten().boxed(),
        };
        let next = contacts.poll_next_unpin(cx);
        this.contacts_left = Some(contacts);
        next
    }
}

debug_fields!(ContactStream: page_size);

//! The contacts of an audience: `Contact` as it is read, `NewContact` and `ContactUpdate` as they
//! are sent, and the operations, `Contacts`. Services have many fields and words for whether a
//! contact wants emails. `wants_emails` reads them into `Contact::subscribed`, or only the one that
//! the dialect pins. If they contradict each other, the contact does not want emails; if none is
//! there, `subscribed` is `None`.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::message::can_be_address;
use crate::decode::{self, Extra, resource, take_pinned};
use crate::dialect::{Dialect, Point};
use crate::engine::{Call, Deleted, Shared, payload, request_type, update_request};
use crate::error::InvalidInput;
use crate::fields::{Fields, at, find, flag, is_no_time, plain};
use crate::list::List;
use crate::names::{debug_fields, setters};
use crate::operation::Operation;
use crate::pages::ListStream;
use crate::words::WORDS;

resource! {
    /// A contact of an audience.
    Contact, "a contact", "contact", prepare;

    /// The email address.
    email: Option<String>;

    /// The display name.
    name: Option<String>;

    /// Custom data. `None` if the response does not contain it.
    metadata: Option<Map<String, Value>> = "decode::object";

    /// Subscription topics. `None` if the response does not contain them.
    topics: Option<Vec<String>> = "decode::texts";

    /// Whether the contact wants emails, whatever the service calls it: `subscribed`,
    /// `unsubscribed`, a status. `None` if the response does not tell it clearly.
    subscribed: Option<bool> = "decode::flag";
}

debug_fields!(Contact: id, topics, subscribed, extra);

fn prepare(fields: &mut Fields, dialect: &Dialect) {
    take_pinned(fields, dialect, Point::MetadataField, "metadata");
    // Where it is not clear, it stays as it is.
    if let Some(wants) = wants_emails(fields, dialect) {
        fields.insert("subscribed".to_owned(), wants.into());
    }
}

/// Whether a contact wants emails, if its fields tell it. Where they contradict each other, it does
/// not.
fn wants_emails(fields: &Fields, dialect: &Dialect) -> Option<bool> {
    let named = |name: &str| wish(at(fields, name)?);
    match dialect.pinned(Point::OptOut) {
        None => {}
        Some("unsubscribed") => return named("unsubscribed").map(|out| !out),
        Some("status") => return status(find(fields, &WORDS.subscription_statuses)?.1.as_str()?),
        Some(field) => {
            return match field.strip_prefix('!') {
                Some(field) => named(field).map(|out| !out),
                None => named(field),
            };
        }
    }

    let answers = fields.iter().filter_map(|(name, value)| {
        let name = plain(name);
        match name.as_str() {
            name if WORDS.opted_in.contains(&name) => wish(value),
            name if WORDS.opted_out.contains(&name) => flag(value).map(|out| !out),
            name if WORDS.subscription_statuses.contains(&name) => status(value.as_str()?),
            "unsubscribedat" | "optedoutat" | "optoutat" => Some(is_no_time(value)),
            _ => None,
        }
    });
    answers.reduce(|all, wants| all && wants)
}

/// A flag, or a word that says the same, perhaps in an object with other details of a consent.
fn wish(value: &Value) -> Option<bool> {
    let value = match value {
        Value::Object(consent) => find(consent, &WORDS.subscription_statuses)?.1,
        value => value,
    };
    flag(value).or_else(|| status(value.as_str()?))
}

/// Whether a word means that the person wants emails.
fn status(word: &str) -> Option<bool> {
    let word = plain(word);
    let wants = WORDS.wishes.contains(&word.as_str());
    let refuses = WORDS.refusals.contains(&word.as_str());
    (wants || refuses).then_some(wants)
}

/// The parameters of a new contact. A string converts into one with that email address.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
#[must_use = "it has to be sent"]
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
}

setters! {
    impl NewContact;

    /// Sets the display name.
    name(name: impl Into<String>) { name = Some(name.into()) }

    /// Adds a field of custom data.
    metadata(name: impl Into<String>, value: impl Into<Value>) {
        metadata.insert(name.into(), value.into())
    }

    /// Adds a subscription topic.
    topic(topic: impl Into<String>) { topics.push(topic.into()) }
}

impl<T: Into<String>> From<T> for NewContact {
    fn from(email: T) -> Self {
        Self::new(email)
    }
}

debug_fields!(NewContact: topics);

update_request! {
    /// Changes to a contact.
    ContactUpdate;

    /// The display name. `None` leaves it unchanged, `Some(None)` clears it.
    #[serde(deserialize_with = "present")]
    name: Option<Option<String>>;

    /// Custom data, merged into the existing data.
    metadata: Map<String, Value>;

    /// Subscription topics, which replace the existing ones.
    topics: Option<Vec<String>>;

    /// Whether the contact is subscribed.
    subscribed: Option<bool>;
}

impl ContactUpdate {
    /// Replaces the subscription topics. An empty list removes all of them.
    pub fn topics<T: Into<String>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics = Some(topics.into_iter().map(Into::into).collect());
        self
    }
}

setters! {
    impl ContactUpdate;

    /// Sets the display name.
    name(name: impl Into<String>) { name = Some(Some(name.into())) }

    /// Clears the display name: it is sent as `null`.
    ///
    /// ```
    /// use svc_sdk::email::ContactUpdate;
    ///
    /// let update = ContactUpdate::new().clear_name();
    /// assert_eq!(serde_json::to_string(&update)?, r#"{"name":null}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    clear_name() { name = Some(None) }

    /// Adds a field of custom data, merged into the existing data.
    metadata(name: impl Into<String>, value: impl Into<Value>) {
        metadata.insert(name.into(), value.into())
    }

    /// Subscribes or unsubscribes the contact.
    subscribed(subscribed: bool) { subscribed = Some(subscribed) }
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
        let payload = if is_refused {
            Err(InvalidInput::new("email", "not an email address, such as `a@b`").into())
        } else {
            payload(contact)
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
        Call::without_body(&self.shared, Operation::ContactsList, &[audience.as_ref()])
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
    pub fn stream(&self, audience: impl AsRef<str>) -> ListStream<Contact> {
        let contacts = self.clone();
        let audience = audience.as_ref().to_owned();
        ListStream::new(true, move || contacts.list(&audience))
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
        Call::without_body(&self.shared, Operation::ContactsDelete, &[id.as_ref()])
    }
}

/// Which page of an audience's contacts to return.
impl Call<List<Contact>> {
    /// Sets the number of the page. Usually the first page is 1.
    pub fn page(self, page: u64) -> Self {
        self.with_query("page", page)
    }

    /// Sets the maximum number of contacts per page.
    pub fn page_size(self, page_size: u64) -> Self {
        self.with_query("pageSize", page_size)
    }
}

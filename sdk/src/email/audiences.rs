//! Audiences, which are lists of contacts.

use serde::{Deserialize, Serialize};

use crate::client::collection;
use crate::decode::{self, Extra, resource};
use crate::engine::{Call, payload, request_type};
use crate::operation::Operation;

/// An audience, which is a list of contacts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Audience {
    /// The audience's id; empty if the response has none.
    #[serde(
        deserialize_with = "decode::id",
        skip_serializing_if = "String::is_empty"
    )]
    pub id: String,
    /// The audience's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The other fields of the response.
    #[serde(flatten)]
    pub extra: Extra,
}

resource!(Audience, "an audience", "audience", ["name"]);

/// The parameters of a new audience. Its name alone converts into it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewAudience {
    /// The name.
    pub name: String,
    /// Additional fields; sent as given.
    #[serde(flatten)]
    pub extra: Extra,
}

request_type!(NewAudience);

impl NewAudience {
    /// Creates the parameters for an audience with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            extra: Extra::default(),
        }
    }
}

impl<T: Into<String>> From<T> for NewAudience {
    fn from(name: T) -> Self {
        Self::new(name)
    }
}

collection! {
    /// The operations on audiences. All of them require the scope `contacts:manage`.
    Audiences of Audience;
    /// Lists the audiences.
    list AudiencesList;
    /// Deletes an audience.
    delete AudiencesDelete;
}

impl Audiences {
    /// Creates an audience with this name.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// let audience = client.audiences().create("Readers").await?;
    /// println!("{}", audience.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&self, audience: impl Into<NewAudience>) -> Call<Audience> {
        let payload = payload(audience.into());
        Call::new(&self.shared, Operation::AudiencesCreate, &[], payload)
    }

    /// Returns an audience.
    pub fn get(&self, id: impl AsRef<str>) -> Call<Audience> {
        Call::without_body(&self.shared, Operation::AudiencesGet, &[id.as_ref()])
    }
}

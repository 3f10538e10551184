//! Audiences, which are lists of contacts.

use serde::{Deserialize, Serialize};

use crate::client::collection;
use crate::decode::{self, Extra, resource};
use crate::engine::{Call, named_request, payload};
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

named_request! {
    /// The parameters of a new audience.
    NewAudience
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

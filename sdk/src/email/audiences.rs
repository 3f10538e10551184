//! Audiences, which are lists of contacts (`docs/email-service/audiences.md`).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::check_extra;

use crate::client::{Call, Deleted, Payload, Resource, Shared};
use crate::decode::record;
use crate::request::request_type;

use crate::{Error, List, Operation};

record! {
    /// An audience, which is a list of contacts.
    pub struct Audience {
        /// The audience's id; empty if the response has none.
        pub id: String = "id";
        /// The audience's name.
        pub name: Option<String> = "name";
    }
}

impl Resource for Audience {
    const NOUN: &'static str = "an audience";

    fn is_identified(&self) -> bool {
        !self.id.is_empty()
    }
}

/// The parameters of a new audience. A string converts into one with that name.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewAudience {
    /// The audience's name.
    pub name: String,
    /// Additional fields without a setter of their own; sent as given.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

request_type!(NewAudience);

impl NewAudience {
    /// Creates the parameters for an audience with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), extra: Map::new() }
    }
}

/// Shows the name only: other fields may hold private data.
impl fmt::Debug for NewAudience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewAudience").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<T: Into<String>> From<T> for NewAudience {
    fn from(name: T) -> Self {
        Self::new(name)
    }
}

/// The operations on audiences. All of them require the scope `contacts:manage`.
#[derive(Clone, Debug)]
pub struct Audiences {
    pub(crate) shared: std::sync::Arc<Shared>,
}

impl Audiences {
    /// Creates an audience. `audience` can be a name.
    ///
    /// ```no_run
    /// # async fn f(client: svc_sdk::EmailClient) -> Result<(), svc_sdk::Error> {
    /// let audience = client.audiences().create("Readers").await?;
    /// println!("{}", audience.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&self, audience: impl Into<NewAudience>) -> Call<Audience> {
        let audience = audience.into();
        let payload = || -> Result<Payload, Error> {
            check_extra(&audience.extra, &[("name", true)])?;
            Payload::json(&audience)
        };
        Call::new(&self.shared, Operation::AudiencesCreate, &[], payload())
    }

    /// Lists all audiences.
    pub fn list(&self) -> Call<List<Audience>> {
        Call::new(&self.shared, Operation::AudiencesList, &[], Ok(Payload::Empty))
    }

    /// Returns an audience.
    pub fn get(&self, id: impl AsRef<str>) -> Call<Audience> {
        Call::new(&self.shared, Operation::AudiencesGet, &[id.as_ref()], Ok(Payload::Empty))
    }

    /// Deletes an audience.
    pub fn delete(&self, id: impl AsRef<str>) -> Call<Deleted> {
        Call::new(&self.shared, Operation::AudiencesDelete, &[id.as_ref()], Ok(Payload::Empty))
    }
}

//! Audiences, which are lists of contacts.

use serde::{Deserialize, Serialize};

use crate::client::collection;
use crate::decode::{Extra, resource};
use crate::engine::{Call, named_request, payload};
use crate::operation::Operation;

resource! {
    /// An audience, which is a list of contacts.
    #[derive(Debug)]
    Audience, "an audience", "audience";

    /// The audience's name.
    name: Option<String>;
}

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

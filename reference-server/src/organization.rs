//! An organization of a test's own.

use std::fmt;

use crate::Server;
use crate::control::organizations;

/// An organization with a key of each service: its resources are invisible to
/// all others, so tests can share a server.
///
/// `Debug` does not show the keys.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Organization {
    /// Its id, `org_…`.
    pub id: String,
    /// Its name.
    pub name: String,
    /// A key of the email service with every scope.
    pub email_key: String,
    /// A key of the extraction service with the scope `full`.
    pub extraction_key: String,
}

impl Server {
    /// Makes an organization, as `POST /_sandbox/organizations` does.
    ///
    /// # Errors
    ///
    /// [`NotStored`] where the database takes nothing more.
    pub async fn create_organization(
        &self,
        name: impl Into<String>,
    ) -> Result<Organization, NotStored> {
        let made = organizations::make(self.app(), Some(name.into()), 0).await;
        let made = made.map_err(|error| NotStored(error.message().to_owned()))?;
        Ok(Organization {
            id: made.organization.id,
            name: made.organization.name,
            email_key: made.email_key,
            extraction_key: made.extraction_key,
        })
    }
}

impl fmt::Debug for Organization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Organization").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The database did not take it: the disk is full, or fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the organization was not stored: {0}")]
pub struct NotStored(String);

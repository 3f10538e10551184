//! [`Organization`]: one tenant of a server, created through [`Server`].

use std::fmt;

use crate::Server;
use crate::api::control::organizations;

/// An organization with one API key for each service, returned by
/// [`Server::create_organization`].
///
/// An organization cannot see the resources of another, so tests that use one
/// organization each can share a server. The `Debug` output omits the keys.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Organization {
    /// The ID, `org_…`.
    pub id: String,
    /// The name.
    pub name: String,
    /// A key of the email service with all scopes.
    pub email_key: String,
    /// A key of the extraction service with the scope `full`.
    pub extraction_key: String,
}

impl Server {
    /// Creates an organization, like `POST /_sandbox/organizations`.
    ///
    /// Names need not be unique.
    ///
    /// # Errors
    ///
    /// Returns [`CreateOrganizationError`] if the database cannot store it.
    pub async fn create_organization(
        &self,
        name: impl Into<String>,
    ) -> Result<Organization, CreateOrganizationError> {
        let created = organizations::create_with_keys(self.app(), Some(name.into()), 0).await;
        let created =
            created.map_err(|error| CreateOrganizationError(error.message().to_owned()))?;
        Ok(Organization {
            id: created.organization.id,
            name: created.organization.name,
            email_key: created.email_key,
            extraction_key: created.extraction_key,
        })
    }
}

impl fmt::Debug for Organization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Organization").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The database could not store an organization, because the disk is full or an I/O
/// error occurred.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot create the organization: {0}")]
pub struct CreateOrganizationError(String);

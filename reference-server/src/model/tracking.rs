//! [`Tracking`]: what is tracked of an email.

use serde::{Deserialize, Serialize};

/// What is tracked of an email, and the base URL of the pixel and the links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tracking {
    pub(crate) base_url: String,
    pub(crate) opens: bool,
    pub(crate) clicks: bool,
}

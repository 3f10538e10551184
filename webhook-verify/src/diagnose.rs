//! Finds the cause of a signature mismatch, for use during development.
//!
//! It tries the known mistakes in handling headers, secrets and bodies, and
//! reports which of them explain the mismatch.
//!
//! **Never use it in a server.** It reveals how a forged signature differs from
//! a valid one, so its output must not reach a sender.
//!
//! ```
//! use webhook_verify::diagnose::{Case, Diagnosis, Mistake};
//! use webhook_verify::{Mail, MailSigner, Secret};
//!
//! # fn main() -> Result<(), webhook_verify::SecretError> {
//! let header = MailSigner::new(&Secret::new("whsec_3f1c")?).sign("{}").to_string();
//!
//! let diagnosis = Case::<Mail>::new(header, "{}\n", "whsec_3f1c").diagnose();
//! assert_eq!(diagnosis, Diagnosis::Explained(vec![Mistake::NewlineAdded]));
//! # Ok(())
//! # }
//! ```

mod body;
mod header;
mod mistake;
mod reordered;
mod secret;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use zeroize::Zeroizing;

use crate::Scheme;
use crate::mac::{HmacKey, tags_equal};
pub use mistake::{Hint, Mistake};

/// A delivery to diagnose: the header, body and secret exactly as the receiver has
/// them, untrimmed.
#[must_use = "call `diagnose` to get a result"]
pub struct Case<S> {
    header: Vec<u8>,
    body: Vec<u8>,
    secret: Zeroizing<Vec<u8>>,
    other_secrets: Vec<(Mistake, Zeroizing<Vec<u8>>)>,
    scheme: PhantomData<S>,
}

impl<S: Scheme> Case<S> {
    /// Creates a case from the signature header's value, the body, and the secret
    /// as it is configured. The secret can be one that
    /// [`Secret::new`](crate::Secret::new) rejects.
    pub fn new(
        header: impl Into<Vec<u8>>,
        body: impl Into<Vec<u8>>,
        secret: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            header: header.into(),
            body: body.into(),
            secret: Zeroizing::new(secret.into()),
            other_secrets: Vec::new(),
            scheme: PhantomData,
        }
    }

    /// Adds a previous secret of the webhook to try.
    pub fn old_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.other_secrets.push((Mistake::OldSecret, Zeroizing::new(secret.into())));
        self
    }

    /// Adds the other service's secret to try.
    pub fn other_scheme_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.other_secrets.push((Mistake::OtherSchemeSecret, Zeroizing::new(secret.into())));
        self
    }

    /// Searches for mistakes that together explain the mismatch: at most one each
    /// of the header, the secret and the body.
    pub fn diagnose(&self) -> Diagnosis {
        let headers = header::candidates::<S>(&self.header);
        let secrets = secret::candidates(&self.secret, &self.other_secrets);
        let bodies = body::candidates(&self.body);
        let keys: Vec<_> =
            secrets.iter().map(|(mistake, key)| (*mistake, HmacKey::from_bytes(key))).collect();

        // Each list starts with the candidate without a mistake and has no duplicates.
        for (body_mistake, body) in &bodies {
            for (secret_mistake, key) in &keys {
                let tag = key.tag(body);
                let matching = headers.iter().find(|(_, claimed)| tags_equal(&tag, claimed));
                if let Some((header_mistake, _)) = matching {
                    let mistakes = [*header_mistake, *secret_mistake, *body_mistake];
                    return Diagnosis::explained(mistakes.into_iter().flatten().collect());
                }
            }
        }
        // There are many orders of keys, so that they are not combined with other mistakes
        // of the body and the secret.
        let (secret_mistake, key) = &keys[0];
        for body in reordered::candidates(&self.body) {
            let tag = key.tag(&body);
            if let Some((header_mistake, _)) =
                headers.iter().find(|(_, claimed)| tags_equal(&tag, claimed))
            {
                let mistakes = [*header_mistake, *secret_mistake, Some(Mistake::KeysReordered)];
                return Diagnosis::explained(mistakes.into_iter().flatten().collect());
            }
        }
        Diagnosis::Unexplained(self.hints(headers.is_empty()))
    }

    fn hints(&self, header_unreadable: bool) -> Vec<Hint> {
        let mut hints = Vec::new();
        if self.secret.is_empty() {
            hints.push(Hint::SecretEmpty);
        }
        if self.header.is_empty() {
            hints.push(Hint::HeaderEmpty);
        } else if header_unreadable {
            hints.push(Hint::HeaderUnreadable);
        }
        hints.extend(body::hint(&self.body));
        hints
    }
}

/// Shows nothing of the secret, the header and the body.
impl<S: Scheme> fmt::Debug for Case<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case").field("scheme", &S::NAME).finish_non_exhaustive()
    }
}

/// The result of [`Case::diagnose`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Diagnosis {
    /// The signature is valid.
    Verifies,
    /// These mistakes together explain the mismatch.
    Explained(Vec<Mistake>),
    /// No known mistake explains the mismatch: another secret was used, or the
    /// body was changed irreversibly. The hints describe anything unusual.
    Unexplained(Vec<Hint>),
}

impl Diagnosis {
    fn explained(mistakes: Vec<Mistake>) -> Self {
        if mistakes.is_empty() { Self::Verifies } else { Self::Explained(mistakes) }
    }
}

/// A value that the sender may have used, and the mistake that turned it into the
/// value in the [`Case`]. `None` if it is that value.
type Candidate<T> = (Option<Mistake>, T);
type BodyCandidate<'a> = Candidate<Cow<'a, [u8]>>;

//! Which known mistake would explain a signature that does not verify.
//!
//! **For a developer's machine only.** It tells how far off a signature is,
//! which is what an attacker wants to know: never wire it to an answer.
//!
//! ```
//! use webhook_verify::diagnose::{Diagnose, Finding, Mistake};
//! use webhook_verify::{Mail, MailSigner, Secret};
//!
//! # fn main() -> Result<(), webhook_verify::SecretError> {
//! let header = MailSigner::new(&Secret::new("whsec_3f1c")?).sign("{}").to_string();
//!
//! let finding = Diagnose::<Mail>::new(header, "{}\n", "whsec_3f1c").run();
//! assert_eq!(finding, Finding::Explained(vec![Mistake::NewlineAdded]));
//! # Ok(())
//! # }
//! ```

mod body;
mod header;
mod mistake;
mod secret;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use zeroize::Zeroizing;

use crate::Scheme;
use crate::mac::{Keyed, same_tag};
pub use mistake::{Hint, Mistake};

/// A case to be diagnosed: header, body and secret exactly as the receiver has
/// them, with nothing trimmed.
#[must_use = "nothing is looked for before `run`"]
pub struct Diagnose<S> {
    header: Vec<u8>,
    body: Vec<u8>,
    secret: Zeroizing<Vec<u8>>,
    others: Vec<(Mistake, Zeroizing<Vec<u8>>)>,
    scheme: PhantomData<S>,
}

impl<S: Scheme> Diagnose<S> {
    /// A case of scheme `S`: the signature header's value, the body, and the
    /// secret as it stands in the configuration. A secret that
    /// [`Secret::new`](crate::Secret::new) refuses is welcome here.
    pub fn new(
        header: impl Into<Vec<u8>>,
        body: impl Into<Vec<u8>>,
        secret: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            header: header.into(),
            body: body.into(),
            secret: Zeroizing::new(secret.into()),
            others: Vec::new(),
            scheme: PhantomData,
        }
    }

    /// Tries a secret that was in use before as well.
    pub fn old_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.others.push((Mistake::OldSecret, Zeroizing::new(secret.into())));
        self
    }

    /// Tries the secret of the other service as well.
    pub fn other_scheme_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.others.push((Mistake::OtherSchemeSecret, Zeroizing::new(secret.into())));
        self
    }

    /// Looks for the mistakes that together explain the case: at most one each
    /// of the header, the secret and the body.
    pub fn run(&self) -> Finding {
        let headers = header::readings::<S>(&self.header);
        let secrets = secret::readings(&self.secret, &self.others);
        let bodies = body::readings(&self.body);
        let keys: Vec<_> =
            secrets.iter().map(|(mistake, key)| (*mistake, Keyed::from_key(key))).collect();

        // What needs no mistake comes first in each, and nothing comes twice.
        for (of_body, body) in &bodies {
            for (of_secret, key) in &keys {
                let tag = key.tag_of(body);
                let meant = headers.iter().find(|(_, claimed)| same_tag(&tag, claimed));
                if let Some((of_header, _)) = meant {
                    let mistakes = [*of_header, *of_secret, *of_body];
                    return Finding::explained(mistakes.into_iter().flatten().collect());
                }
            }
        }
        Finding::Unexplained(self.hints(headers.is_empty()))
    }

    fn hints(&self, unreadable_header: bool) -> Vec<Hint> {
        let mut hints = Vec::new();
        if self.secret.is_empty() {
            hints.push(Hint::SecretEmpty);
        }
        if self.header.is_empty() {
            hints.push(Hint::HeaderEmpty);
        } else if unreadable_header {
            hints.push(Hint::HeaderUnreadable);
        }
        hints.extend(body::hint(&self.body));
        hints
    }
}

/// Nothing of secret, header or body.
impl<S: Scheme> fmt::Debug for Diagnose<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Diagnose").field("scheme", &S::NAME).finish_non_exhaustive()
    }
}

/// What a diagnosis found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// There is nothing to explain: the signature verifies.
    Verifies,
    /// These mistakes, all of them together, explain the case.
    Explained(Vec<Mistake>),
    /// No known mistake explains it: another secret was used, or the body was
    /// changed in a way that cannot be undone. What looked odd on the way.
    Unexplained(Vec<Hint>),
}

impl Finding {
    fn explained(mistakes: Vec<Mistake>) -> Self {
        if mistakes.is_empty() { Self::Verifies } else { Self::Explained(mistakes) }
    }
}

/// One way in which a part of the case could have been meant, and the mistake
/// that turned it into what was given. No mistake: just as given.
type Reading<T> = (Option<Mistake>, T);
type BodyReading<'a> = Reading<Cow<'a, [u8]>>;

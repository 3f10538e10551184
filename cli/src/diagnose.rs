//! Finds out why a signature does not match: tries the known mistakes in handling headers, secrets
//! and bodies, and reports which of them explain the mismatch. The result must not reach a sender.

mod body;
mod header;
mod mistake;
mod reordered;
mod secret;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use webhook_verify::Service;

use crate::signing::tag;

pub use body::spaced;
pub use mistake::{Hint, Mistake};

/// A delivery to diagnose: the header, body and secret exactly as the receiver has them, untrimmed.
pub struct Case<'a> {
    service: Service,
    header: &'a [u8],
    body: &'a [u8],
    secret: &'a [u8],
    other_secrets: Vec<(Mistake, &'a [u8])>,
}

impl<'a> Case<'a> {
    pub fn new(service: Service, header: &'a [u8], body: &'a [u8], secret: &'a [u8]) -> Self {
        Self { service, header, body, secret, other_secrets: Vec::new() }
    }

    /// Adds previous secrets of the webhook, or secrets of the other service, to try.
    pub fn secrets(mut self, mistake: Mistake, secrets: &'a [Vec<u8>]) -> Self {
        self.other_secrets.extend(secrets.iter().map(|secret| (mistake, secret.as_slice())));
        self
    }

    /// Searches for mistakes that together explain the mismatch: at most one each
    /// of the header, the secret and the body.
    pub fn diagnose(&self) -> Diagnosis {
        let headers = header::candidates(self.service, self.header);
        let secrets = secret::candidates(self.secret, &self.other_secrets);
        let bodies = body::candidates(self.body);

        // Each list starts with the candidate without a mistake and has no duplicates.
        for (body_mistake, body) in &bodies {
            for (secret_mistake, key) in &secrets {
                let tag = tag(key, body);
                let matching = headers.iter().find(|(_, claimed)| tag == *claimed);
                if let Some((header_mistake, _)) = matching {
                    let mistakes = [*header_mistake, *secret_mistake, *body_mistake];
                    return Diagnosis::explained(mistakes.into_iter().flatten().collect());
                }
            }
        }
        // There are many orders of keys, so that they are not combined with other mistakes
        // of the body and the secret.
        let (secret_mistake, key) = &secrets[0];
        for body in reordered::candidates(self.body) {
            let tag = tag(key, &body);
            if let Some((header_mistake, _)) = headers.iter().find(|(_, claimed)| tag == *claimed) {
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
        hints.extend(body::hint(self.body));
        hints
    }
}

/// The result of [`Case::diagnose`].
#[derive(Debug, PartialEq, Eq)]
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

//! `Plan`: what a job sends to whom. It is stored with the job in the ledger as JSON, so that any
//! process can continue it; a field that changes must still be read from older ledgers. `identity`
//! is what makes two emails the same, so that nobody gets one twice, and `fingerprint` what makes
//! two keys the same, without revealing them. `Plan::render` makes the email of a `PreparedRow`
//! with the `Renderer` of `message.rs`.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use svc_sdk::Service;
use svc_sdk::email::{Attachment, Email};

use super::message::Renderer;
use crate::context::Context;
use crate::failure::Failure;
use crate::input::attach::AttachedFile;
use crate::input::email::{hash_of, mailbox};
use crate::settings::Key;
use crate::settings::table::SANDBOX_RUN;

/// The email of a job, and to whom it goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The base URL of the service, or `sandbox`.
    pub service: String,
    pub profile: String,
    /// The file that the rows were read from, as it is shown.
    pub file: Option<String>,
    /// The audience that the rows were read from.
    pub audience: Option<String>,
    /// The email, without recipients and attachments. Its texts may contain placeholders such as
    /// `{{ first_name }}`.
    pub email: Email,
    /// The address with which a recipient unsubscribes.
    pub unsubscribe: Option<String>,
    /// Their contents are files of the job in the ledger.
    pub attachments: Vec<AttachedFile>,
    /// Where all emails go instead.
    pub only_to: Option<String>,
    /// Emails a second.
    pub rate: Option<f64>,
    /// Requests in flight.
    pub concurrency: usize,
    /// The fingerprint of the key.
    pub key: String,
    /// Who may get emails, according to the recipient guard.
    pub recipients: Option<String>,
    pub left_out: LeftOut,
    /// How many seconds the clock of the service is ahead, as that of a sandbox may be.
    #[serde(default)]
    pub ahead: i64,
}

/// A row of a job: its address, the values of its placeholders, and whether it says that the person
/// is subscribed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PreparedRow(pub String, pub Map<String, Value>, pub bool);

/// How many rows are left out, by the code that says why.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LeftOut(BTreeMap<String, u64>);

impl LeftOut {
    pub fn count(&mut self, code: &str) {
        *self.0.entry(code.to_owned()).or_default() += 1;
    }

    /// How many have this code.
    pub fn of(&self, code: &str) -> u64 {
        self.0.get(code).copied().unwrap_or_default()
    }

    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Such as `12 unsubscribed, 3 invalid left out`.
    pub fn describe(&self) -> Option<String> {
        let counts = self
            .0
            .iter()
            .map(|(code, count)| format!("{count} {}", code.replace('_', " ")));
        let counts = counts.collect::<Vec<_>>();
        (!counts.is_empty()).then(|| format!("{} left out", counts.join(", ")))
    }
}

impl Plan {
    /// The email of a row, whose person has to be among the subscribers, if there are any.
    pub fn email_to_subscriber(
        &self,
        renderer: &Renderer,
        subscribers: Option<&HashSet<u64>>,
        row: &PreparedRow,
    ) -> Result<Email, String> {
        let is_subscribed =
            |them: &HashSet<u64>| hash_of(&row.0).is_some_and(|hash| them.contains(&hash));
        if subscribers.is_none_or(is_subscribed) {
            self.render(renderer, row)
        } else {
            Err("not subscribed any more".to_owned())
        }
    }

    /// The email of a row.
    pub fn render(&self, renderer: &Renderer, row: &PreparedRow) -> Result<Email, String> {
        let PreparedRow(address, values, _) = row;
        match &self.only_to {
            Some(only_to) => renderer.render(values, only_to),
            None => renderer.render(values, &named(address, values.get("name"))?),
        }
    }

    /// Renders the emails of the job with these contents of its attachments.
    pub fn renderer(&self, contents: Vec<Vec<u8>>) -> Result<Renderer, Failure> {
        let mut email = self.email.clone();
        for (file, content) in self.attachments.iter().zip(contents) {
            email
                .attachments
                .push(file.describe(Attachment::from_bytes("", content)));
        }
        Renderer::new(email, self.unsubscribe.as_deref())
    }

    /// Whether this run has the service of the job.
    pub fn check_service(&self, context: &Context) -> Result<(), Failure> {
        let here = service(context);
        let there = &self.service;
        if here == *there {
            return Ok(());
        }

        let hint = if is_sandbox(there) {
            "add --sandbox".to_owned()
        } else {
            format!(
                "use the profile or base URL of `svc bulk send`: {}",
                self.profile
            )
        };
        Err(Failure::usage(format!("the job was started with {there}, not with {here}")).hint(hint))
    }

    /// The time of the service's clock at this time.
    pub fn time(&self, at: DateTime<Utc>) -> DateTime<Utc> {
        at + TimeDelta::seconds(self.ahead)
    }

    /// When the service is to send the emails.
    pub fn scheduled_at(&self) -> Option<DateTime<Utc>> {
        self.email.scheduled_at.as_ref()?.as_str().parse().ok()
    }

    /// The identity of the email, with these contents of its attachments: nobody gets it twice,
    /// whenever it is sent.
    pub fn identity(&self, contents: &[Vec<u8>]) -> Result<String, Failure> {
        let mut email = self.email.clone();
        email.scheduled_at = None;
        let parts = (&self.service, &email, &self.unsubscribe, &self.attachments);
        let parts = serde_json::to_vec(&parts).map_err(|e| Failure::other(e.to_string()))?;
        let mut digest = Sha256::new_with_prefix(parts);
        for content in contents {
            digest.update(Sha256::digest(content));
        }

        Ok(hex::encode(&digest.finalize()[..16]))
    }
}

/// The name of an attachment in the ledger.
pub fn attachment(number: usize) -> String {
    format!("attachment-{number}")
}

/// The address with the display name of its row. A name that may be read as another address is left
/// out.
fn named(address: &str, name: Option<&Value>) -> Result<String, String> {
    let name = name
        .and_then(Value::as_str)
        .map(str::trim)
        .unwrap_or_default();
    if name.chars().any(char::is_control) {
        return Err("`name` contains a line end".to_owned());
    }
    if name.is_empty() || name.contains('@') || address.contains('<') {
        return Ok(address.to_owned());
    }
    Ok(mailbox(name, address).unwrap_or_else(|| address.to_owned()))
}

/// The service of this run, so that a job is not continued with another one. Each run of
/// `svc sandbox exec` has one of its own.
pub fn service(context: &Context) -> String {
    if let Some(url) = context.settings.url(Service::Email) {
        return url.value.trim_end_matches('/').to_owned();
    }
    match context.settings.variable(SANDBOX_RUN) {
        Ok(Some(run)) => format!("sandbox {}", run.value),
        _ => "sandbox".to_owned(),
    }
}

/// Whether a service is a sandbox.
pub fn is_sandbox(service: &str) -> bool {
    !service.contains("://")
}

/// A fingerprint of the key, from which the key cannot be told.
pub fn fingerprint(job: &str, key: &Key) -> String {
    let digest = Sha256::digest(format!("{job}\n{}", key.expose()));
    digest[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_quoted_or_left_out() {
        let to = |name: &str| named("a@b.test", Some(&json!(name)));
        assert_eq!(to("Zoë O'Hara").as_deref(), Ok("Zoë O'Hara <a@b.test>"));
        assert_eq!(to("Hara, Z.").as_deref(), Ok("\"Hara, Z.\" <a@b.test>"));
        for name in ["", " ", "x@y.test", "<x>", "a\"b"] {
            assert_eq!(to(name).as_deref(), Ok("a@b.test"), "{name}");
        }

        assert!(to("a\r\nBcc: c@d.test").is_err());
        let named_before = named("Ada <a@b.test>", Some(&json!("Eve")));
        assert_eq!(named_before.as_deref(), Ok("Ada <a@b.test>"));
    }
}

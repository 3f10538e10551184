//! The recipient guard: who may get emails from a client, and how many
//! (`docs/guides/recipient-guard.md`).

mod address;
mod request;
mod usage;

use std::fmt;
use std::path::PathBuf;

use address::{Address, Rule};
use usage::Usage;

use super::call::Request;
use crate::{Error, ErrorKind, InvalidInput, Outcome};

/// Limits who gets emails, so that a staging system or a test cannot write to customers. Set
/// it with [`EmailClientBuilder::recipient_guard`](crate::EmailClientBuilder::recipient_guard).
///
/// The client checks the final request of every send, batches and raw requests included:
/// `to`, `cc` and `bcc` of each email. If one recipient is not allowed, nothing is sent, and
/// the call fails with [`ErrorKind::RecipientGuard`](crate::ErrorKind::RecipientGuard), which
/// names the recipient and the rule.
///
/// ```
/// # fn main() -> Result<(), svc_sdk::Error> {
/// use svc_sdk::email::Email;
/// use svc_sdk::{EmailClient, RecipientGuard};
///
/// let client = EmailClient::builder("https://mail.example", "mk_…")
///     .recipient_guard(RecipientGuard::allow(["@example.com", "me@x.test"]).max_per_hour(500))
///     .build()?;
/// let email = Email::new("hello@shop.example", "ada@customer.test", "Hi").text("Hello");
/// let error = client.emails().send(&email).to_request().unwrap_err();
/// assert!(error.to_string().contains("ada@customer.test"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "pass it to `recipient_guard` of a builder"]
pub struct RecipientGuard {
    /// `None`: every address is allowed.
    allowed: Option<Vec<String>>,
    redirect: Option<String>,
    max_per_run: Option<u64>,
    max_per_hour: Option<u64>,
    hour_file: Option<PathBuf>,
}

impl RecipientGuard {
    /// Allows only recipients that match one of these rules:
    ///
    /// - `me@x.test`: this address
    /// - `me+*@x.test`: this address with any `+tag`
    /// - `@example.com`: every address in this domain, but not in its subdomains
    /// - `@*.example.com`: every address in a subdomain of it
    ///
    /// Case does not matter, and an internationalized domain equals its `xn--` form. Without
    /// rules, nothing can be sent. An invalid rule is an error of the builder's `build`.
    ///
    /// `RecipientGuard::default()` allows every recipient, to set only other limits.
    pub fn allow<T: Into<String>>(rules: impl IntoIterator<Item = T>) -> Self {
        Self { allowed: Some(rules.into_iter().map(Into::into).collect()), ..Self::default() }
    }

    /// Sends every email to this address instead of its recipients. The headers
    /// `X-Original-To`, `X-Original-Cc` and `X-Original-Bcc` name them. The address must
    /// match a rule of [`allow`](Self::allow) if there are any.
    pub fn redirect_to(mut self, address: impl Into<String>) -> Self {
        self.redirect = Some(address.into());
        self
    }

    /// Limits the recipients of all emails that the client and its clones send: each address
    /// in `to`, `cc` and `bcc` counts, after a redirect only the new one. Requests that the
    /// service did not process do not count.
    pub fn max_per_run(mut self, recipients: u64) -> Self {
        self.max_per_run = Some(recipients);
        self
    }

    /// Limits the recipients of all emails within an hour, counted like those of
    /// [`max_per_run`](Self::max_per_run). By default, only the client and its clones count;
    /// see [`hour_file`](Self::hour_file).
    pub fn max_per_hour(mut self, recipients: u64) -> Self {
        self.max_per_hour = Some(recipients);
        self
    }

    /// Counts the recipients of an hour in this file, which several processes may share. It
    /// is created if it does not exist; its directory must exist. If it cannot be read and
    /// written, nothing is sent.
    pub fn hour_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.hour_file = Some(path.into());
        self
    }

    /// Reads a guard from the environment variables `SVC_ALLOW_RECIPIENTS` (rules separated
    /// by commas or white space), `SVC_REDIRECT_RECIPIENTS`, `SVC_MAX_RECIPIENTS_PER_RUN` and
    /// `SVC_MAX_RECIPIENTS_PER_HOUR`. Returns `None` if none of them is set.
    ///
    /// [`EmailClient::from_env`](crate::EmailClient::from_env) and
    /// [`EmailClientBuilder::from_env`](crate::EmailClientBuilder::from_env) do this.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if a variable is empty or not a
    /// number; the error names it.
    pub fn from_env() -> Result<Option<Self>, Error> {
        Self::from_variables(|name| std::env::var(name))
    }

    pub(super) fn from_variables(
        read: impl Fn(&str) -> Result<String, std::env::VarError>,
    ) -> Result<Option<Self>, Error> {
        let text = |name: &str| match read(name) {
            Ok(text) if !text.trim().is_empty() => Ok(Some(text.trim().to_owned())),
            // An empty variable is more likely a mistake than the wish to allow everything.
            Ok(_) => Err(Error::config(format!("the environment variable {name} is empty"))),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => {
                Err(Error::config(format!("the environment variable {name} is not UTF-8")))
            }
        };
        let number = |name: &str| match text(name)?.map(|text| text.parse()) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(Error::config(format!(
                "the environment variable {name} is not a number of recipients"
            ))),
        };
        let allowed = text("SVC_ALLOW_RECIPIENTS")?;
        let guard = Self {
            allowed: allowed.as_deref().map(|text| Self::split_rules(text).collect()),
            redirect: text("SVC_REDIRECT_RECIPIENTS")?,
            max_per_run: number("SVC_MAX_RECIPIENTS_PER_RUN")?,
            max_per_hour: number("SVC_MAX_RECIPIENTS_PER_HOUR")?,
            hour_file: None,
        };
        Ok((guard != Self::default()).then_some(guard))
    }

    /// Checks the rules and the address of a redirect, as the builder's `build` does, and that
    /// the limits allow a recipient now and the [`hour_file`](Self::hour_file) can be used.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config), which names the invalid rule, or
    /// [`ErrorKind::RecipientGuard`](crate::ErrorKind::RecipientGuard), which names the limit.
    pub fn check(&self) -> Result<(), Error> {
        ActiveGuard::new(self.clone())?.check_limits()
    }

    /// Splits the text of `SVC_ALLOW_RECIPIENTS` into rules.
    fn split_rules(text: &str) -> impl Iterator<Item = String> {
        let parts = text.split(|c: char| c == ',' || c.is_whitespace());
        parts.filter(|part| !part.is_empty()).map(str::to_owned)
    }

    /// The fewest recipients that a limit allows.
    #[cfg(all(feature = "bulk", not(all(target_arch = "wasm32", target_os = "unknown"))))]
    pub(crate) fn smallest_limit(&self) -> Option<u64> {
        [self.max_per_run, self.max_per_hour].into_iter().flatten().min()
    }
}

/// Describes the guard in one line, such as `only @example.com; at most 500 recipients per
/// hour`.
impl fmt::Display for RecipientGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = self.allowed.as_ref().map(|rules| match rules.as_slice() {
            [] => "no recipient".to_owned(),
            rules => format!("only {}", rules.join(", ")),
        });
        let redirect = self.redirect.as_ref().map(|to| format!("all emails go to {to}"));
        let limit = |limit: Option<u64>, per: &str| {
            limit.map(|limit| format!("at most {limit} recipients per {per}"))
        };
        let limits = [limit(self.max_per_run, "run"), limit(self.max_per_hour, "hour")];
        let parts = [redirect, allowed].into_iter().chain(limits).flatten().collect::<Vec<_>>();
        match parts.is_empty() {
            true => f.write_str("every recipient"),
            false => f.write_str(&parts.join("; ")),
        }
    }
}

/// The guard of a client.
pub(crate) struct ActiveGuard {
    rules: Option<Vec<Rule>>,
    redirect: Option<String>,
    usage: Usage,
    guard: RecipientGuard,
}

impl ActiveGuard {
    pub(super) fn new(guard: RecipientGuard) -> Result<Self, Error> {
        let failed = |problem: String| Error::config(format!("recipient guard: {problem}"));
        let rules = guard.allowed.as_ref().map(|rules| {
            rules.iter().map(|rule| Rule::parse(rule)).collect::<Result<Vec<_>, String>>()
        });
        let rules = rules.transpose().map_err(failed)?;
        let redirect = guard.redirect.as_ref().map(|text| {
            let address = Address::parse(text).ok_or_else(|| {
                failed(format!("the redirect address `{}` is not an address", shown(text)))
            })?;
            match is_allowed(rules.as_deref(), &address) {
                true => Ok(text.clone()),
                false => Err(failed(format!(
                    "the redirect address {} matches none of its rules",
                    shown(text)
                ))),
            }
        });
        let usage = Usage::new(guard.max_per_run, guard.max_per_hour, guard.hour_file.clone());
        Ok(Self { rules, redirect: redirect.transpose()?, usage, guard })
    }

    #[cfg(all(feature = "bulk", not(all(target_arch = "wasm32", target_os = "unknown"))))]
    pub(crate) fn guard(&self) -> &RecipientGuard {
        &self.guard
    }

    /// Checks that the limits allow a recipient now.
    pub(crate) fn check_limits(&self) -> Result<(), Error> {
        let refused = |refused| Error::new(ErrorKind::RecipientGuard(refused), Outcome::NotSent);
        self.usage.check().map_err(refused)
    }

    /// Redirects and checks a request that is about to be sent, and returns the number of its
    /// recipients.
    pub(super) fn check(&self, request: &mut Request) -> Result<u64, Error> {
        request::check(self, request).map_err(|refused| guard_error(refused, request))
    }

    /// Counts the recipients of a request that is about to be sent.
    pub(super) fn count(&self, recipients: u64, request: &Request) -> Result<(), Error> {
        self.usage.add(recipients).map_err(|refused| guard_error(refused, request))
    }

    /// The service has not processed a request that was counted.
    pub(super) fn uncount(&self, recipients: u64) {
        self.usage.take_back(recipients);
    }

    fn allows(&self, address: &Address) -> bool {
        is_allowed(self.rules.as_deref(), address)
    }

    /// The rules, for an error.
    fn shown_rules(&self) -> String {
        match self.guard.allowed.as_deref().unwrap_or_default() {
            [] => "no recipient is allowed".to_owned(),
            rules => format!("allowed are only {}", rules.join(", ")),
        }
    }
}

fn is_allowed(rules: Option<&[Rule]>, address: &Address) -> bool {
    rules.is_none_or(|rules| rules.iter().any(|rule| rule.matches(address)))
}

fn guard_error(refused: InvalidInput, request: &Request) -> Error {
    Error::new(ErrorKind::RecipientGuard(refused), Outcome::NotSent).with_target(request.target)
}

/// Text for a message: short, and without control characters.
fn shown(text: &str) -> String {
    let text = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    text.take(320).collect()
}

#[cfg(test)]
mod tests {
    use std::env::VarError;

    use super::*;

    #[test]
    fn the_environment_sets_a_guard_and_an_empty_variable_is_an_error() {
        let read = |set: &'static [(&str, &str)]| {
            RecipientGuard::from_variables(move |name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned()).ok_or(VarError::NotPresent)
            })
        };
        assert_eq!(read(&[]).unwrap(), None);
        let all = read(&[
            ("SVC_ALLOW_RECIPIENTS", " @example.com,me@x.test  you@x.test"),
            ("SVC_REDIRECT_RECIPIENTS", "me@x.test"),
            ("SVC_MAX_RECIPIENTS_PER_RUN", "5"),
            ("SVC_MAX_RECIPIENTS_PER_HOUR", "7"),
        ]);
        let rules = ["@example.com", "me@x.test", "you@x.test"];
        let expected = RecipientGuard::allow(rules).redirect_to("me@x.test");
        let expected = expected.max_per_run(5).max_per_hour(7);
        assert_eq!(all.unwrap().unwrap(), expected);
        assert_eq!(
            expected.to_string(),
            "all emails go to me@x.test; only @example.com, me@x.test, you@x.test; at most 5 \
             recipients per run; at most 7 recipients per hour"
        );
        let error = read(&[("SVC_ALLOW_RECIPIENTS", " ")]).unwrap_err();
        assert!(error.to_string().contains("SVC_ALLOW_RECIPIENTS is empty"), "{error}");
        let error = read(&[("SVC_MAX_RECIPIENTS_PER_RUN", "many")]).unwrap_err();
        assert!(error.to_string().contains("SVC_MAX_RECIPIENTS_PER_RUN is not a number"));
    }
}

//! The recipient guard: who may get emails from a client, and how many, see
//! <https://github.com/svc-tools/svc/blob/main/docs/guides/recipient-guard.md>.

mod address;
mod request;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use address::{Address, Rule};

pub(crate) use address::{breaks_line, shown};

use super::environment::{Read, variable};
use crate::error::{Error, ErrorKind, InvalidInput, Outcome};
use crate::names::setters;

/// Limits who gets emails, so that a staging system or a test cannot write to customers. Set
/// it with [`ClientBuilder::recipient_guard`](crate::ClientBuilder::recipient_guard).
///
/// The client checks `to`, `cc` and `bcc` of each email, batches included. If one recipient is
/// not allowed, nothing is sent, and the call fails with
/// [`ErrorKind::RecipientGuard`](crate::ErrorKind::RecipientGuard), which names the recipient
/// and the rule. What could name other recipients is refused, too: additional fields, headers
/// that are not known to be harmless, line ends, and raw requests that are not documented or send
/// emails. The
/// [guide](https://github.com/svc-tools/svc/blob/main/docs/guides/recipient-guard.md) lists what
/// is allowed, and what a guard cannot know.
///
/// ```
/// # fn main() -> Result<(), svc_sdk::Error> {
/// use svc_sdk::email::Email;
/// use svc_sdk::{EmailClient, RecipientGuard};
///
/// let client = EmailClient::builder("https://mail.example", "mk_…")
///     .recipient_guard(RecipientGuard::allow(["@example.com", "me@x.test"]).max_per_run(500))
///     .build()?;
/// let email = Email::new("hello@shop.example", "ada@customer.test", "Hi").text("Hello");
/// let error = client.emails().send(&email).to_request().unwrap_err();
/// assert!(error.to_string().contains("ada@customer.test"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "pass it to `recipient_guard` of a builder"]
pub struct RecipientGuard {
    /// `None`: every address is allowed.
    allowed: Option<Vec<String>>,
    redirect: Option<String>,
    max_per_run: Option<u64>,
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
        Self {
            allowed: Some(rules.into_iter().map(Into::into).collect()),
            ..Self::default()
        }
    }

    /// Reads a guard from the environment variables `SVC_ALLOW_RECIPIENTS` (rules separated
    /// by commas or white space), `SVC_REDIRECT_RECIPIENTS` and `SVC_MAX_RECIPIENTS_PER_RUN`.
    /// Returns `None` if none of them is set.
    ///
    /// [`EmailClient::from_env`](crate::EmailClient::from_env) and
    /// [`recipient_guard_from_env`](crate::EmailClientBuilder::recipient_guard_from_env) do this.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if a variable is empty or not a
    /// number, or has a similar name; the error names the variable.
    pub fn from_env() -> Result<Option<Self>, Error> {
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        check_names(names)?;
        Self::from_variables(&|name| std::env::var(name))
    }

    fn from_variables(read: Read<'_>) -> Result<Option<Self>, Error> {
        let text = |name: &str| variable(name, read);
        let number = |name: &str| match text(name)?.map(|text| text.parse()) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(Error::config(format!(
                "the environment variable {name} is not a number of recipients"
            ))),
        };

        let allowed = text("SVC_ALLOW_RECIPIENTS")?;
        let guard = Self {
            allowed: allowed
                .as_deref()
                .map(|text| Self::split_rules(text).collect()),
            redirect: text("SVC_REDIRECT_RECIPIENTS")?,
            max_per_run: number("SVC_MAX_RECIPIENTS_PER_RUN")?,
        };
        let is_set =
            guard.allowed.is_some() || guard.redirect.is_some() || guard.max_per_run.is_some();
        Ok(is_set.then_some(guard))
    }

    /// Checks the rules and the address of a redirect, as the builder's `build` does, and that
    /// the limit allows a recipient.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config), which names the invalid rule, or
    /// [`ErrorKind::RecipientGuard`](crate::ErrorKind::RecipientGuard), which names the limit.
    pub fn check(&self) -> Result<(), Error> {
        ActiveGuard::new(self.clone())?;
        if self.max_per_run == Some(0) {
            return Err(refuse(InvalidInput::new("max_per_run", "the limit is 0")));
        }
        Ok(())
    }

    /// Checks recipients that get something in another way than by a client's send, in one run. With a
    /// redirect, only that address is allowed.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), and
    /// [`ErrorKind::RecipientGuard`](crate::ErrorKind::RecipientGuard), which names the recipient and
    /// the rules.
    pub fn check_recipients<T: AsRef<str>>(&self, recipients: &[T]) -> Result<(), Error> {
        let guard = ActiveGuard::new(self.clone())?;
        for recipient in recipients.iter().map(T::as_ref) {
            let redirected = guard.redirect().filter(|redirect| *redirect != recipient);
            let problem = match redirected {
                Some(redirect) => Some(format!(
                    "{} is not {redirect}, which gets all emails",
                    shown(recipient)
                )),
                None => guard.problem_with(recipient),
            };
            if let Some(problem) = problem {
                return Err(refuse(InvalidInput::new("to", problem)));
            }
        }
        guard.count(recipients.len().try_into().unwrap_or(u64::MAX))
    }

    /// Splits the text of `SVC_ALLOW_RECIPIENTS` into rules.
    fn split_rules(text: &str) -> impl Iterator<Item = String> {
        let parts = text.split(|c: char| c == ',' || c.is_whitespace());
        parts.filter(|part| !part.is_empty()).map(str::to_owned)
    }
}

setters! {
    impl RecipientGuard;

    /// Sends every email to this address instead of its recipients. The headers
    /// `X-Original-To`, `X-Original-Cc` and `X-Original-Bcc` name them. The address must
    /// match a rule of [`allow`](Self::allow) if there are any.
    redirect_to(address: impl Into<String>) { redirect = Some(address.into()) }

    /// Limits the recipients of all emails that the client and its clones send: each address
    /// in `to`, `cc` and `bcc` counts, after a redirect only the new one. Requests that the
    /// service did not process do not count.
    max_per_run(recipients: u64) { max_per_run = Some(recipients) }
}

const VARIABLES: [&str; 3] = [
    "SVC_ALLOW_RECIPIENTS",
    "SVC_REDIRECT_RECIPIENTS",
    "SVC_MAX_RECIPIENTS_PER_RUN",
];

/// A misspelled variable must not allow everyone.
fn check_names(names: impl Iterator<Item = String>) -> Result<(), Error> {
    let is_similar = |name: &String| {
        let name = name.to_ascii_uppercase();
        name.starts_with("SVC_") && name.contains("RECIP")
    };
    match names
        .filter(is_similar)
        .find(|name| !VARIABLES.contains(&name.as_str()))
    {
        Some(name) => Err(Error::config(format!(
            "the environment variable {name} is none of the recipient guard, which are {}; \
             rename or unset it",
            VARIABLES.join(", ")
        ))),
        None => Ok(()),
    }
}

/// Describes the guard in one line, such as `only @example.com; at most 500 recipients per
/// run`.
impl fmt::Display for RecipientGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = self.allowed.as_ref().map(|rules| match rules.as_slice() {
            [] => "no recipient".to_owned(),
            rules => format!("only {}", rules.join(", ")),
        });
        let redirect = self
            .redirect
            .as_ref()
            .map(|to| format!("all emails go to {to}"));
        let limit = self
            .max_per_run
            .map(|limit| format!("at most {limit} recipients per run"));
        let parts = [redirect, allowed, limit]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>();
        if parts.is_empty() {
            f.write_str("every recipient")
        } else {
            f.write_str(&parts.join("; "))
        }
    }
}

impl fmt::Debug for RecipientGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecipientGuard({self})")
    }
}

/// The guard of a client.
pub(crate) struct ActiveGuard {
    rules: Option<Vec<Rule>>,
    guard: RecipientGuard,
    /// The recipients of this run.
    used: AtomicU64,
}

impl ActiveGuard {
    pub(super) fn new(guard: RecipientGuard) -> Result<Self, Error> {
        let failed = |problem: String| Error::config(format!("recipient guard: {problem}"));
        let rules = guard.allowed.as_ref().map(|rules| {
            rules
                .iter()
                .map(|rule| Rule::parse(rule))
                .collect::<Result<Vec<_>, String>>()
        });
        let active = Self {
            rules: rules.transpose().map_err(failed)?,
            guard,
            used: 0.into(),
        };
        if let Some(text) = active.redirect() {
            let problem = match Address::parse(text) {
                None => "is not an address",
                Some(address) if !active.allows(&address) => "matches none of its rules",
                Some(_) => return Ok(active),
            };
            return Err(failed(format!(
                "the redirect address {} {problem}",
                shown(text)
            )));
        }

        Ok(active)
    }

    /// The address that all emails go to.
    pub(crate) fn redirect(&self) -> Option<&str> {
        self.guard.redirect.as_deref()
    }

    /// Why a recipient is not allowed.
    pub(crate) fn problem_with(&self, recipient: &str) -> Option<String> {
        let text = shown(recipient);
        match Address::parse(recipient) {
            // Without rules, several addresses would count as one.
            None => Some(format!(
                "`{text}` can be read as several addresses or none; write `a@b` or `Name <a@b>`, \
                 with the address in ASCII and without `%!=?|/`"
            )),
            Some(address) if self.allows(&address) => None,
            Some(_) => Some(match self.guard.allowed.as_deref().unwrap_or_default() {
                [] => format!("{text} is not allowed; no recipient is allowed"),
                rules => format!(
                    "{text} is not allowed; allowed are only {}",
                    rules.join(", ")
                ),
            }),
        }
    }

    fn allows(&self, address: &Address) -> bool {
        self.rules
            .as_ref()
            .is_none_or(|rules| rules.iter().any(|rule| rule.matches(address)))
    }

    /// The error of a raw request that sends emails, or may do so.
    pub(super) fn refuse_raw(&self) -> Error {
        refuse(InvalidInput::new(
            "path",
            "raw requests cannot be checked, so only documented ones that send no emails are \
             allowed; send with `emails send` or `emails batch`",
        ))
    }

    /// Counts recipients before they are sent to.
    pub(super) fn count(&self, recipients: u64) -> Result<(), Error> {
        if recipients == 0 {
            return Ok(());
        }

        let limit = self.guard.max_per_run.unwrap_or(u64::MAX);
        let add = |used: u64| used.checked_add(recipients).filter(|used| *used <= limit);
        if let Err(used) = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
        {
            let problem = format!(
                "{recipients} more recipients exceed the limit of {limit} per run, of which \
                 {used} are used"
            );
            return Err(refuse(InvalidInput::new("max_per_run", problem)));
        }

        Ok(())
    }

    /// The service has not processed a request that was counted.
    pub(super) fn uncount(&self, recipients: u64) {
        self.used.fetch_sub(recipients, Ordering::Relaxed);
    }
}

pub(crate) fn refuse(refused: InvalidInput) -> Error {
    Error::new(ErrorKind::RecipientGuard(refused), Outcome::NotSent)
}

#[cfg(test)]
mod tests {
    use std::env::VarError;

    use super::*;

    #[test]
    fn a_misspelled_variable_is_an_error() {
        let check = |name: &str| check_names([name.to_owned()].into_iter());
        for name in [
            "SVC_ALLOWED_RECIPIENTS",
            "SVC_REDIRECT_RECIPIENT",
            "SVC_MAX_RECIPIENTS_PER_HOUR",
            "svc_allow_recipients",
        ] {
            assert!(check(name).unwrap_err().to_string().contains(name));
        }
        for name in ["SVC_ALLOW_RECIPIENTS", "SVC_EMAIL_KEY", "RECIPIENTS"] {
            check(name).unwrap();
        }
    }

    #[test]
    fn the_environment_sets_a_guard_and_an_empty_variable_is_an_error() {
        let read = |set: &'static [(&str, &str)]| {
            RecipientGuard::from_variables(&|name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found
                    .map(|(_, value)| (*value).to_owned())
                    .ok_or(VarError::NotPresent)
            })
        };

        assert!(read(&[]).unwrap().is_none());
        let all = read(&[
            (
                "SVC_ALLOW_RECIPIENTS",
                " @example.com,me@x.test  you@x.test",
            ),
            ("SVC_REDIRECT_RECIPIENTS", "me@x.test"),
            ("SVC_MAX_RECIPIENTS_PER_RUN", "5"),
        ]);
        assert_eq!(
            all.unwrap().unwrap().to_string(),
            "all emails go to me@x.test; only @example.com, me@x.test, you@x.test; at most 5 \
             recipients per run"
        );
        let error = read(&[("SVC_ALLOW_RECIPIENTS", " ")]).unwrap_err();
        assert!(
            error.to_string().contains("SVC_ALLOW_RECIPIENTS is empty"),
            "{error}"
        );
        let error = read(&[("SVC_MAX_RECIPIENTS_PER_RUN", "many")]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("SVC_MAX_RECIPIENTS_PER_RUN is not a number")
        );
    }
}

//! `--wait`: `Polls` follows the polls of the SDK within `--timeout`, and `for_email` prints each
//! change until the status is final. Transient failures are survived, up to `MAX_FAILURES` in a row
//! (`FailureBudget`), but not that of the first poll if no state is known. After a timeout, the
//! outcome is unknown and the failure not retryable: the email was accepted, and sending it again
//! would send it twice. `verdict` decides whether the final status is a failure.

use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt as _};
use serde_json::Value;
use svc_sdk::email::{EmailRecord, EmailStatus};
use svc_sdk::{Call, EmailClient, Error, PollResult, Wait};
use tokio::time::Instant;

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::Format;

/// The polls of a wait that `--timeout` bounds.
pub struct Polls<'a, T> {
    context: &'a Context,
    polls: BoxStream<'static, Result<PollResult<T>, Error>>,
    deadline: Instant,
    failures: FailureBudget,
    has_state: bool,
}

impl<'a, T: Clone + Send + 'static> Polls<'a, T>
where
    Call<T>: IntoFuture<Output = Result<T, Error>, IntoFuture: Send>,
{
    /// Starts to wait. A failure of the first poll ends the wait, unless the state `is_known`.
    pub fn start(context: &'a Context, wait: Wait<T>, is_known: bool) -> Self {
        let timeout = context.settings.timeout.value;
        let deadline = Instant::now() + timeout;
        let failures = FailureBudget::default();
        let polls = wait.timeout(timeout).polls().boxed();
        Self {
            context,
            polls,
            deadline,
            failures,
            has_state: is_known,
        }
    }

    /// The next state; `None` after the final one, and when the time is up.
    pub async fn next(&mut self) -> Result<Option<T>, Failure> {
        while let Some(poll) = self.polls.next().await {
            match poll {
                Ok(PollResult::State(state)) => {
                    self.failures = FailureBudget::default();
                    self.has_state = true;
                    return Ok(Some(state));
                }
                Ok(PollResult::Failed(error)) => {
                    let left = self.deadline.saturating_duration_since(Instant::now());
                    let is_last = error.retry_after().is_some_and(|pause| pause >= left);
                    let failure = self.context.caller.failure(error);
                    if is_last || !self.has_state {
                        return Err(failure);
                    }
                    self.failures.with(self.context, failure)?;
                }
                Err(error) if error.is_timeout() => return Ok(None),
                Err(error) => return Err(self.context.caller.failure(error)),
                // The SDK may add results of a poll.
                Ok(_) => {}
            }
        }
        Ok(None)
    }
}

/// Waits until the status is final, within `--timeout`. Prints each change. `seen` is the last
/// response, also if the wait fails.
pub async fn for_email(
    context: &Context,
    client: &EmailClient,
    id: &str,
    seen: &mut Option<EmailRecord>,
) -> Result<(), Failure> {
    const FIRST_PAUSE: Duration = Duration::from_millis(100);
    const LONGEST_PAUSE: Duration = Duration::from_secs(2);

    let is_final = |email: &EmailRecord| email.status.as_ref().is_some_and(EmailStatus::is_final);
    if let Some(first) = seen {
        announce(context, id, first)?;
        if is_final(first) {
            return Ok(());
        }
    }

    let progress = context.out.progress(format!("waiting for {id}"));
    let wait = client
        .emails()
        .wait(id)
        .poll_interval(FIRST_PAUSE, LONGEST_PAUSE);
    let mut polls = Polls::start(context, wait, seen.is_some());
    while let Some(email) = polls.next().await? {
        if seen.as_ref().is_none_or(|last| last.status != email.status) {
            announce(context, id, &email)?;
            let status = email.status.as_ref();
            let status = status.map_or("without a status", EmailStatus::as_str);
            progress.set_text(format!("{id} is {status}, waiting for the next status"));
        }
        let is_final = is_final(&email);
        *seen = Some(email);
        if is_final {
            return Ok(());
        }
    }

    Err(timed_out(context, id, seen.as_ref()))
}

/// The wait fails after this many consecutive transient failures.
const MAX_FAILURES: u32 = 5;

/// Counts consecutive transient failures of a wait, so that a short outage does not end it.
#[derive(Default)]
pub struct FailureBudget(u32);

impl FailureBudget {
    /// Counts a transient failure. Returns any other failure, and the last one that is allowed.
    pub fn with(&mut self, context: &Context, failure: Failure) -> Result<(), Failure> {
        self.0 += 1;
        let transient = matches!(failure.kind(), Kind::Unavailable | Kind::RateLimited);
        if !transient || self.0 >= MAX_FAILURES {
            return Err(failure);
        }
        context.out.note(&format!("retrying: {}", failure.message));
        Ok(())
    }
}

/// Fails if the final status means that the email was not delivered, or was marked as spam.
pub fn verdict(id: &str, email: &EmailRecord) -> Result<(), Failure> {
    let Some(status) = email
        .status
        .as_ref()
        .filter(|status| status.is_undelivered())
    else {
        return Ok(());
    };
    let why = reason(email)
        .map(|why| format!(": {why}"))
        .unwrap_or_default();
    Err(Failure::check(format!("email {id}: {status}{why}")).code(format!("email_{status}")))
}

/// Why an email was not delivered, as the service reports it: for the email, or for the first
/// recipient with a reason. The fields are not documented
/// (`docs/undocumented/services.md#email-fields`).
pub fn reason(email: &EmailRecord) -> Option<String> {
    const FIELDS: [&str; 5] = ["reason", "detail", "error", "bounce", "message"];
    fn of(value: &Value) -> Option<String> {
        match value {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Object(map) => FIELDS.iter().find_map(|field| of(map.get(*field)?)),
            _ => None,
        }
    }
    FIELDS
        .iter()
        .find_map(|field| of(email.extra.get(*field)?))
        .or_else(|| {
            let recipients = email.extra.get("recipients")?.as_array()?;
            recipients.iter().find_map(|recipient| {
                let why = of(recipient)?;
                match recipient.get("address").and_then(Value::as_str) {
                    Some(address) if recipients.len() > 1 => Some(format!("{address}: {why}")),
                    _ => Some(why),
                }
            })
        })
}

fn announce(context: &Context, id: &str, email: &EmailRecord) -> Result<(), Failure> {
    if context.out.format() == Format::Ndjson {
        return context.out.value(email);
    }

    let status = email
        .status
        .as_ref()
        .map_or("no status", EmailStatus::as_str);
    context.out.note(&format!("{id}: {status}"));
    Ok(())
}

fn timed_out(context: &Context, id: &str, email: Option<&EmailRecord>) -> Failure {
    let status = email.and_then(|email| email.status.as_ref());
    // The email was accepted, so sending it again would send it twice.
    let mut failure = Failure::new(
        Kind::OutcomeUnknown,
        format!(
            "the email {id} is still {} after {:?}",
            status.map_or("without a status", EmailStatus::as_str),
            context.settings.timeout.value
        ),
    )
    .code("wait_timed_out");
    failure.retryable = Some(false);
    let wait = context.svc("emails get {} --wait --timeout 10m", &[id]);
    failure.hint(format!("continue waiting: {wait}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_reason_of_a_bounce_is_in_the_message() {
        let recipient =
            |address: &str, detail: Value| json!({"address": address, "detail": detail});
        for (email, message) in [
            (json!({"status": "bounced"}), "email eml_1: bounced"),
            (
                json!({"status": "bounced", "reason": "mailbox full"}),
                "email eml_1: bounced: mailbox full",
            ),
            (
                json!({"status": "failed", "error": {"code": 550, "message": "no such user"}}),
                "email eml_1: failed: no such user",
            ),
            (
                json!({"status": "bounced", "recipients": [recipient("a@b.test", json!("550 no"))]}),
                "email eml_1: bounced: 550 no",
            ),
            (
                json!({"status": "bounced", "recipients": [
                    recipient("a@b.test", Value::Null),
                    recipient("c@d.test", json!({"reason": "blocked"})),
                ]}),
                "email eml_1: bounced: c@d.test: blocked",
            ),
        ] {
            let email = serde_json::from_value(email).expect("an email");
            let failure = verdict("eml_1", &email).expect_err("not delivered");
            assert_eq!(failure.message, message);
        }
    }
}

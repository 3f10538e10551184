//! `--wait` for emails: polls an email until its status is final.

use std::time::Duration;

use serde_json::Value;
use svc_sdk::EmailClient;
use svc_sdk::email::EmailStatus;
use tokio::time::Instant;

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::{self, Format};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Polls until the status is final, within `--timeout`. Prints each change. `seen` is the last
/// response, also if the wait fails.
pub async fn for_email(
    context: &Context,
    client: &EmailClient,
    id: &str,
    seen: &mut Option<Value>,
) -> Result<(), Failure> {
    let deadline = Instant::now() + context.settings.timeout.value;
    let mut pause = FIRST_PAUSE;
    let mut status = None;
    let mut failures = FailureBudget::default();
    if let Some(first) = seen {
        status = first.get("status").and_then(Value::as_str).map(str::to_owned);
        announce(context, id, first, status.as_deref())?;
    }
    let mut progress = context.out.progress(format!("waiting for {id}"));
    loop {
        if let Some(text) = &status
            && EmailStatus::from(text.clone()).is_final()
        {
            return Ok(());
        }
        if seen.is_some() {
            let wake = Instant::now() + pause;
            if deadline < wake {
                tokio::time::sleep_until(deadline).await;
                return Err(timed_out(context, id, status.as_deref()));
            }
            tokio::time::sleep_until(wake).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let email = match context.run(client.emails().get(id)).await {
            Ok(email) => email,
            Err(failure) if seen.is_some() => {
                failures.with(context, failure)?;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        failures = FailureBudget::default();
        let value = output::to_value(&email);
        let now = value.get("status").and_then(Value::as_str).map(str::to_owned);
        if now.is_none() {
            return Err(Failure::other(
                "the response contains no status, so svc cannot wait for the final one",
            ));
        }
        if now != status {
            announce(context, id, &value, now.as_deref())?;
            progress = context.out.progress(format!(
                "{id} is {}, waiting for the next status",
                now.as_deref().unwrap_or_default()
            ));
            pause = FIRST_PAUSE;
        }
        status = now;
        *seen = Some(value);
        let _ = &progress;
    }
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
        context.out.note(&format!("retrying: {}", failure.details().message));
        Ok(())
    }
}

/// Fails if the final status means that the email was not delivered, or was marked as spam.
pub fn verdict(id: &str, email: &Value) -> Result<(), Failure> {
    let why = reason(email).map(|why| format!(": {why}")).unwrap_or_default();
    let status = email.get("status").and_then(Value::as_str).unwrap_or_default();
    match EmailStatus::from(status.to_owned()) {
        EmailStatus::Bounced | EmailStatus::Failed | EmailStatus::Complained => {
            Err(Failure::check(format!("email {id}: {status}{why}"))
                .code(format!("email_{status}")))
        }
        // Not in the service's reference, but it clearly means that the email is not delivered.
        _ if matches!(status, "cancelled" | "canceled") => {
            Err(Failure::check(format!("email {id}: {status}")).code("email_cancelled"))
        }
        _ => Ok(()),
    }
}

/// Why an email was not delivered, as the service reports it: for the email, or for the first
/// recipient with a reason. The fields are not documented
/// (`docs/undocumented/email-service.md#email-fields`).
pub fn reason(email: &Value) -> Option<String> {
    const FIELDS: [&str; 6] =
        ["reason", "detail", "error", "bounce", "statusReason", "failureReason"];
    let text = |value: &Value| match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Object(map) => ["message", "reason", "detail", "description", "diagnostic"]
            .iter()
            .find_map(|key| map.get(*key)?.as_str().map(str::to_owned)),
        _ => None,
    };
    let reported = |value: &Value| FIELDS.iter().find_map(|field| text(value.get(field)?));
    reported(email).or_else(|| {
        let recipients = email.get("recipients")?.as_array()?;
        recipients.iter().find_map(|recipient| {
            let why = reported(recipient)?;
            match recipient.get("address").and_then(Value::as_str) {
                Some(address) if recipients.len() > 1 => Some(format!("{address}: {why}")),
                _ => Some(why),
            }
        })
    })
}

fn announce(
    context: &Context,
    id: &str,
    email: &Value,
    status: Option<&str>,
) -> Result<(), Failure> {
    if context.out.format() == Format::Ndjson {
        return context.out.value(email);
    }
    context.out.note(&format!("{id}: {}", status.unwrap_or("no status")));
    Ok(())
}

fn timed_out(context: &Context, id: &str, status: Option<&str>) -> Failure {
    // The email was accepted, so sending it again would send it twice.
    let mut failure = Failure::new(
        Kind::OutcomeUnknown,
        format!(
            "the email {id} is still {} after {:?}",
            status.unwrap_or("without a status"),
            context.settings.timeout.value
        ),
    )
    .code("wait_timed_out");
    failure.details_mut().retryable = Some(false);
    let wait = context.svc(&format!("emails get {id} --wait --timeout 10m"));
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
            let failure = verdict("eml_1", &email).expect_err("not delivered");
            assert_eq!(failure.details().message, message);
        }
    }
}

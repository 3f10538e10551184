//! `--wait` for emails: polls an email until its status is final.

use std::time::Duration;

use serde_json::Value;
use svc_sdk::EmailClient;
use svc_sdk::email::EmailStatus;
use tokio::time::Instant;

use crate::commands::emails;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::output::{self, Format};
use crate::settings::Source;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Polls until the status is final and returns the last response. Prints each change. An explicit
/// `--timeout` limits the whole wait.
pub async fn for_email(
    context: &Context,
    client: &EmailClient,
    id: &str,
    mut seen: Option<Value>,
) -> Result<Value, Failure> {
    let deadline = match &context.settings.timeout.source {
        Source::Default => None,
        _ => Some(Instant::now() + context.settings.timeout.value),
    };
    let mut pause = FIRST_PAUSE;
    let mut status = None;
    let mut failures = FailureBudget::default();
    if let Some(first) = &seen {
        status = first.get("status").and_then(Value::as_str).map(str::to_owned);
        announce(context, id, first, status.as_deref())?;
    }
    let mut progress = context.out.progress(format!("waiting for {id}"));
    loop {
        if let Some(text) = &status
            && EmailStatus::from(text.clone()).is_final()
        {
            return Ok(seen.unwrap_or_default());
        }
        if seen.is_some() {
            let wake = Instant::now() + pause;
            if let Some(deadline) = deadline.filter(|deadline| *deadline < wake) {
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
        seen = Some(value);
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
    let status = email.get("status").and_then(Value::as_str).unwrap_or_default();
    match EmailStatus::from(status.to_owned()) {
        EmailStatus::Bounced | EmailStatus::Failed | EmailStatus::Complained => {
            Err(Failure::check(format!("email {id}: {status}")).code(format!("email_{status}")))
        }
        // Not in the service's reference, but it clearly means that the email is not delivered.
        _ if matches!(status, "cancelled" | "canceled") => {
            Err(Failure::check(format!("email {id}: {status}")).code("email_cancelled"))
        }
        _ => Ok(()),
    }
}

fn announce(
    context: &Context,
    id: &str,
    email: &Value,
    status: Option<&str>,
) -> Result<(), Failure> {
    if context.out.format() == Format::Ndjson {
        return context.out.one(email, emails::VIEW);
    }
    context.out.note(&format!("{id}: {}", status.unwrap_or("no status")));
    Ok(())
}

fn timed_out(context: &Context, id: &str, status: Option<&str>) -> Failure {
    Failure::new(
        Kind::Unavailable,
        format!("timed out: email {id} is still {}", status.unwrap_or("without a status")),
    )
    .hint(format!("continue waiting: {}", context.svc(&format!("emails get {id} --wait"))))
}

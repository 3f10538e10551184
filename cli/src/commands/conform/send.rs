//! The level `send` of `svc conform`: sends emails to the addresses of `--to` and to no other, at
//! most `MOST_EMAILS` to each. With `--listen`, it refuses the first webhook delivery, so that the
//! service retries it. It schedules and cancels an email, sends a batch in each usual form until
//! one is understood, and repeats an idempotency key. Each exchange is kept under the name of its
//! step in `Seen`.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use serde_json::Value;
use svc_sdk::Point;
use svc_sdk::email::{Email, ScheduledAt};
use tokio::time::Instant;

use super::examiner::{Examiner, Step, step};
use super::exchange::{Exchange, field, flag, items};
use super::made::Kind;
use super::points::DELIVERY;
use super::read::pin;
use super::receiver::Receiver;
use crate::failure::Failure;

/// How a batch may be sent: the field that holds the emails.
const BATCHES: [&str; 11] = [
    "array", "emails", "messages", "data", "requests", "items", "batch", "Emails", "Messages",
    "Entries", "Items",
];

/// How long the first email may take until it is sent.
const SENT_WITHIN: Duration = Duration::from_secs(20);

/// The emails that a run sends at most to each address.
pub(super) const MOST_EMAILS: u32 = 6;

const SENT: &[Step] = &[step(
    "emails.get",
    "GET",
    "/api/v1/emails/{emails.send}",
    "",
)];
const SCHEDULED: &[Step] = &[
    step(
        "emails.scheduled",
        "GET",
        "/api/v1/emails/{emails.schedule}",
        "",
    ),
    step(
        "emails.cancel",
        "PATCH",
        "/api/v1/emails/{emails.schedule}/cancel",
        "",
    ),
    step(
        "emails.cancelled",
        "GET",
        "/api/v1/emails/{emails.schedule}",
        "",
    ),
];
const END_OF_EVENTS: &[Step] = &[step(
    "webhooks.events.delete",
    "DELETE",
    "/api/v1/webhooks/{webhooks.events}",
    "",
)];

impl Examiner<'_> {
    pub(super) async fn send_emails(
        &mut self,
        from: Option<&str>,
        to: &[String],
        receiver: Option<&Receiver>,
    ) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let from = match from {
            Some(from) => from.to_owned(),
            None => {
                let name = self.seen.at("domains.list").and_then(verified_domain);
                let Some(name) = name else {
                    self.context.out.warning(
                        "no email was sent: the service lists no verified domain; --from names the sender",
                    );
                    return Ok(());
                };
                format!("svc-conform@{name}")
            }
        };
        let subject = format!("Test by svc conform ({})", self.seen.run);
        let template = Email::new(from, to, subject).text("svc conform tests this email service.");
        let url = receiver.map(|it| it.url_of(&format!("{}-events", self.seen.run)));
        if let (Some(receiver), Some(url)) = (receiver, &url) {
            // The first delivery is refused, so that it is repeated.
            receiver.respond(503);
            self.make(Kind::Webhook, "webhooks.events", url).await?;
        }
        self.send_one(&template).await?;
        if let (Some(receiver), Some(url), Some(_)) =
            (receiver, &url, self.seen.id("webhooks.events"))
        {
            self.receive(DELIVERY, receiver, url, None).await?;
            receiver.respond(200);
            let first = self.seen.at(DELIVERY).map(|it| it.request_body.clone());
            self.receive("delivery.retry", receiver, url, first).await?;
        }
        self.follow(END_OF_EVENTS).await?;
        self.schedule(&template).await?;
        self.send_batch(&template).await?;
        let key = format!("{}-twice", self.seen.run);
        for step in ["emails.key.first", "emails.key.second"] {
            let send = email.emails().send(&template).idempotency_key(&key);
            if let Some(sent) = self.call(step, send).await? {
                self.keep_id(step, &sent.id);
            }
        }
        let mut long = template;
        long.subject = "x".repeat(999);
        self.call("emails.long-subject", email.emails().send(&long))
            .await?;
        Ok(())
    }

    /// Sends an email, and waits until the service has sent it.
    async fn send_one(&mut self, template: &Email) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let sent = self
            .call("emails.send", email.emails().send(template))
            .await?;
        if let Some(sent) = sent {
            self.keep_id("emails.send", &sent.id);
        }
        let until = Instant::now() + SENT_WITHIN;
        let mut pause = Duration::from_millis(50);
        loop {
            self.follow(SENT).await?;
            let body = self.seen.body("emails.get");
            let is_waiting = super::points::status_word(&body).is_some_and(|(_, word)| {
                matches!(word.to_lowercase().as_str(), "queued" | "sending")
            });
            if !is_waiting || Instant::now() > until {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Schedules an email for an hour from now, and cancels it.
    async fn schedule(&mut self, template: &Email) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let at = ScheduledAt::at(&(Utc::now() + TimeDelta::hours(1)));
        let scheduled = template.clone().scheduled_at(at);
        let key = format!("{}-scheduled", self.seen.run);
        self.will_make(Kind::ScheduledEmail, &key, Some(scheduled.clone()))?;
        let send = email.emails().send(&scheduled).idempotency_key(&key);
        let sent = self.call("emails.schedule", send).await?;
        self.has_made("emails.schedule", &key, sent.map(|email| email.id))?;
        self.follow(SCHEDULED).await
    }

    /// Sends a batch with an email whose sender cannot be verified, in each of the usual bodies until
    /// one is understood.
    async fn send_batch(&mut self, template: &Email) -> Result<(), Failure> {
        let mut unverified = template.clone();
        unverified.from = format!("svc-conform@{}.invalid", self.seen.run);
        let emails = [template.clone(), unverified];
        let known = self.target.dialect.clone();
        let first = known.choice(Point::BatchBody).to_owned();
        let others = BATCHES.iter().map(|name| (*name).to_owned());
        for body in std::iter::once(first.clone()).chain(others.filter(|name| *name != first)) {
            let mut dialect = known.clone();
            pin(&mut dialect, Point::BatchBody, &body);
            self.speak(dialect)?;
            let Some(email) = &self.email else {
                break;
            };
            let call = email.emails().send_batch(&emails);
            let sent = self.call("emails.batch", call).await?;
            let Some(exchange) = self.seen.at("emails.batch") else {
                break;
            };
            // A service that refuses the sender has understood the body.
            let names_sender = ["from", "sender", "verified", "domain"]
                .iter()
                .any(|word| exchange.text().to_lowercase().contains(word));
            if exchange.is_success() || names_sender {
                self.keep_id("batch-body", &body);
                let accepted = sent.map_or(0, |batch| batch.accepted().count());
                self.keep_id("batch-accepted", &accepted.to_string());
                break;
            }
        }
        self.speak(known)
    }
}

/// The name of a domain in a list that is verified, wherever its flags are.
fn verified_domain(list: &Exchange) -> Option<String> {
    let body = list.json();
    // Where a list of one is its item, the whole response has the fields of that domain.
    let domains = items(&body).map_or_else(|| vec![&body], |list| list.items);
    let is_verified = |domain: &&Value| {
        let verified = field(domain, "verified").and_then(|(_, value)| flag(value));
        verified == Some(true)
    };
    let domain = domains.into_iter().find(is_verified)?;
    Some(field(domain, "name")?.1.as_str()?.to_owned())
}

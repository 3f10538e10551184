//! The level `send`: emails to the addresses that the user names, and to no other.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use svc_sdk::Point;
use svc_sdk::email::{Email, NewWebhook, ScheduledAt};
use tokio::time::Instant;

use super::examiner::Examiner;
use super::exchange::{Exchange, each, flag, own};
use super::made::Kind;
use super::points::DELIVERY;
use super::read::pin;
use super::receiver::Receiver;
use super::write::EVENTS;
use crate::failure::Failure;

/// How a batch may be sent: the field that holds the emails.
const BATCHES: [&str; 6] = ["array", "emails", "data", "requests", "Entries", "messages"];

/// How long the first email may take until it is sent.
const SENT_WITHIN: Duration = Duration::from_secs(20);

/// The emails that a run sends at most to each address.
pub(super) const MOST_EMAILS: u32 = 6;

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
        let webhook = self.listen_to_events(receiver).await?;
        self.send_one(&template).await?;
        if let (Some(receiver), Some((_, url))) = (receiver, &webhook) {
            self.receive("delivery.event", receiver, url, None).await?;
            receiver.respond(200);
            let first = self.seen.at(DELIVERY).map(|it| it.request_body.clone());
            self.receive("delivery.retry", receiver, url, first).await?;
        }
        if let Some((id, url)) = webhook {
            let delete = email.webhooks().delete(&id);
            self.call("webhooks.events.delete", delete).await?;
            self.has_deleted("webhooks.events.delete", &url)?;
        }
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

    /// Creates a webhook whose first delivery is refused, so that it is repeated.
    async fn listen_to_events(
        &mut self,
        receiver: Option<&Receiver>,
    ) -> Result<Option<(String, String)>, Failure> {
        let (Some(receiver), Some(email)) = (receiver, self.email.clone()) else {
            return Ok(None);
        };
        let url = receiver.url_of(&format!("{}-events", self.seen.run));
        self.will_make(Kind::Webhook, &url)?;
        receiver.respond(503);
        let webhook = NewWebhook::new(&url, [EVENTS[0]]);
        let created = self
            .call("webhooks.events", email.webhooks().create(webhook))
            .await?;
        let Some(created) = created.filter(|webhook| !webhook.id.is_empty()) else {
            return Ok(None);
        };
        self.has_made("webhooks.events", &url, &created.id)?;
        self.seen.event_secret = created
            .signing_secret
            .map(|secret| secret.expose().to_owned());
        Ok(Some((created.id, url)))
    }

    /// Sends an email, and waits until the service has sent it.
    async fn send_one(&mut self, template: &Email) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let sent = self
            .call("emails.send", email.emails().send(template))
            .await?;
        let Some(id) = sent.map(|email| email.id).filter(|id| !id.is_empty()) else {
            return Ok(());
        };
        self.keep_id("emails.send", &id);
        let until = Instant::now() + SENT_WITHIN;
        loop {
            self.call("emails.get", email.emails().get(&id)).await?;
            let body = self
                .seen
                .at("emails.get")
                .map(Exchange::json)
                .unwrap_or_default();
            let is_waiting = super::points::status_word(&body).is_some_and(|(_, word)| {
                matches!(word.to_lowercase().as_str(), "queued" | "sending")
            });
            if !is_waiting || Instant::now() > until {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
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
        self.will_send(Kind::ScheduledEmail, &key, Some(scheduled.clone()))?;
        let send = email.emails().send(&scheduled).idempotency_key(&key);
        let sent = self.call("emails.schedule", send).await?;
        let Some(id) = sent.map(|email| email.id).filter(|id| !id.is_empty()) else {
            return Ok(());
        };
        self.has_made("emails.schedule", &key, &id)?;
        self.call("emails.scheduled", email.emails().get(&id))
            .await?;
        self.call("emails.cancel", email.emails().cancel(&id))
            .await?;
        self.has_deleted("emails.cancel", &key)?;
        self.call("emails.cancelled", email.emails().get(&id))
            .await?;
        Ok(())
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

/// The name of a domain in a list that is verified.
fn verified_domain(list: &Exchange) -> Option<String> {
    each(&list.json(), "verified")
        .into_iter()
        .find_map(|domain| {
            let (_, verified) = own(domain, "verified")?;
            let (_, name) = own(domain, "name")?;
            (flag(verified) == Some(true)).then(|| name.as_str().map(str::to_owned))?
        })
}

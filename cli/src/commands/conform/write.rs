//! The level `write`: makes and deletes an audience with contacts, a domain and webhooks.

use reqwest::Method;
use serde_json::json;
use svc_sdk::email::{NewContact, NewWebhook};

use super::examiner::{Examiner, segment};
use super::made::Kind;
use super::receiver::{Receiver, TEST_STATUS};
use crate::failure::Failure;

/// The events of the email service's webhooks.
pub(super) const EVENTS: [&str; 2] = ["email.sent", "email.delivered"];
/// The names that services have for the parameter that takes a cursor.
pub(super) const CURSORS: [&str; 7] = [
    "cursor",
    "pageToken",
    "page_token",
    "NextToken",
    "nextToken",
    "next_token",
    "starting_after",
];

impl Examiner<'_> {
    pub(super) async fn write(&mut self, receiver: Option<&Receiver>) -> Result<(), Failure> {
        if self.email.is_some() {
            self.write_audience().await?;
            self.write_domain().await?;
            self.write_webhook(receiver).await?;
        }
        self.write_extraction_webhook().await
    }

    async fn write_audience(&mut self) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let name = self.seen.run.clone();
        self.will_make(Kind::Audience, &name)?;
        let created = self
            .call("audiences.create", email.audiences().create(&name))
            .await?;
        let Some(id) = created
            .map(|audience| audience.id)
            .filter(|id| !id.is_empty())
        else {
            return Ok(());
        };
        self.has_made("audiences.create", &name, &id)?;
        self.call("audiences.created", email.audiences().get(&id))
            .await?;
        self.call("audiences.list.created", email.audiences().list())
            .await?;
        self.write_contacts(&id).await?;
        self.call("audiences.delete", email.audiences().delete(&id))
            .await?;
        self.has_deleted("audiences.delete", &name)?;
        self.call("audiences.deleted", email.audiences().get(&id))
            .await?;
        Ok(())
    }

    async fn write_contacts(&mut self, audience: &str) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let path = format!("/api/v1/audiences/{}/contacts", segment(audience));
        for number in 1..=3 {
            let step = if number == 1 {
                "contacts.create"
            } else {
                "contacts.create.more"
            };
            let contact = NewContact::new(self.seen.address(number))
                .name("Svc Conform")
                .metadata("kept", "yes")
                .topic("news");
            let created = self
                .call(step, email.contacts().create(audience, contact))
                .await?;
            if let Some(contact) = created {
                self.keep_id(step, &contact.id);
            }
        }
        self.raw("contacts.invalid", Method::POST, &path, Some(json!({})))
            .await?;
        self.call("contacts.list.created", email.contacts().list(audience))
            .await?;
        for (step, page) in [
            ("contacts.page.0", 0),
            ("contacts.page.1", 1),
            ("contacts.page.2", 2),
            ("contacts.page.9", 9),
        ] {
            let page = format!("{path}?page={page}&pageSize=1");
            self.raw(step, Method::GET, &page, None).await?;
        }
        let first = format!("{path}?pageSize=1");
        self.raw("contacts.page", Method::GET, &first, None).await?;
        self.follow_cursor(&first).await?;
        let Some(id) = self.seen.id("contacts.create").map(str::to_owned) else {
            return Ok(());
        };
        self.update_contact(audience, &id).await?;
        self.call("contacts.delete", email.contacts().delete(&id))
            .await?;
        self.call("contacts.list.deleted", email.contacts().list(audience))
            .await?;
        Ok(())
    }

    async fn update_contact(&mut self, audience: &str, id: &str) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let path = format!("/api/v1/contacts/{}", segment(id));
        for (step, body) in [
            (
                "contacts.update",
                json!({"name": "Conform Svc", "metadata": {"added": "yes"}, "topics": ["offers"]}),
            ),
            (
                "contacts.unknown-field",
                json!({"name": "Conform Svc", "svcConform": true}),
            ),
        ] {
            self.raw(step, Method::PATCH, &path, Some(body)).await?;
        }
        self.call("contacts.list.updated", email.contacts().list(audience))
            .await?;
        let out = json!({"subscribed": false});
        self.raw("contacts.opt-out", Method::PATCH, &path, Some(out))
            .await?;
        self.call("contacts.list.opted-out", email.contacts().list(audience))
            .await?;
        let other = json!({"email": self.seen.address(9)});
        self.raw("contacts.update.email", Method::PATCH, &path, Some(other))
            .await?;
        self.call("contacts.list.same-email", email.contacts().list(audience))
            .await?;
        Ok(())
    }

    /// Tries the names that the parameter for a cursor usually has, if the page has a cursor.
    async fn follow_cursor(&mut self, first: &str) -> Result<(), Failure> {
        let Some(exchange) = self.seen.at("contacts.page") else {
            return Ok(());
        };
        let Some(cursor) = super::points::cursor(&exchange.json()) else {
            return Ok(());
        };
        let first_body = exchange.body.clone();
        for name in CURSORS {
            let Some(email) = &self.email else {
                return Ok(());
            };
            let call = email.raw("GET", first).query(name, &cursor);
            let next = self.call("contacts.cursor", call).await?;
            if next.is_some_and(|next| next.body[..] != first_body[..]) {
                self.keep_id("cursor", name);
                return Ok(());
            }
        }
        Ok(())
    }

    async fn write_domain(&mut self) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let name = self.seen.domain();
        self.will_make(Kind::Domain, &name)?;
        let created = self
            .call("domains.create", email.domains().create(&name))
            .await?;
        let Some(id) = created.map(|domain| domain.id).filter(|id| !id.is_empty()) else {
            return Ok(());
        };
        self.has_made("domains.create", &name, &id)?;
        self.call("domains.list.created", email.domains().list())
            .await?;
        self.call("domains.verify", email.domains().verify(&id))
            .await?;
        self.call("domains.delete", email.domains().delete(&id))
            .await?;
        self.has_deleted("domains.delete", &name)?;
        self.call("domains.list.deleted", email.domains().list())
            .await?;
        Ok(())
    }

    async fn write_webhook(&mut self, receiver: Option<&Receiver>) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let url = match receiver {
            Some(receiver) => receiver.url_of(&self.seen.run),
            None => format!("https://{}.example/hook", self.seen.run),
        };
        self.will_make(Kind::Webhook, &url)?;
        let webhook = NewWebhook::new(&url, EVENTS);
        let created = self
            .call("webhooks.create", email.webhooks().create(webhook))
            .await?;
        let Some(created) = created.filter(|webhook| !webhook.id.is_empty()) else {
            return Ok(());
        };
        let id = &created.id;
        self.has_made("webhooks.create", &url, id)?;
        self.seen.secret = created
            .signing_secret
            .map(|secret| secret.expose().to_owned())
            .filter(|secret| !secret.is_empty());
        self.call("webhooks.list.created", email.webhooks().list())
            .await?;
        if let Some(receiver) = receiver {
            receiver.respond(TEST_STATUS);
        }
        self.call("webhooks.test", email.webhooks().test(id))
            .await?;
        if let Some(receiver) = receiver {
            self.receive("delivery.test", receiver, &url, None).await?;
        }
        let path = format!("/api/v1/webhooks/{}", segment(id));
        let fewer = json!({"events": [EVENTS[0]]});
        self.raw("webhooks.update", Method::PATCH, &path, Some(fewer))
            .await?;
        let off = json!({"active": false});
        self.raw("webhooks.disable", Method::PATCH, &path, Some(off))
            .await?;
        self.call("webhooks.list.updated", email.webhooks().list())
            .await?;
        self.call("webhooks.delete", email.webhooks().delete(id))
            .await?;
        self.has_deleted("webhooks.delete", &url)?;
        self.call("webhooks.list.deleted", email.webhooks().list())
            .await?;
        self.write_insecure_webhook().await
    }

    /// A webhook with a URL that is not https.
    async fn write_insecure_webhook(&mut self) -> Result<(), Failure> {
        let Some(email) = self.email.clone() else {
            return Ok(());
        };
        let url = format!("http://{}.example.com/hook", self.seen.run);
        self.will_make(Kind::Webhook, &url)?;
        let webhook = NewWebhook::new(&url, EVENTS);
        let created = self
            .call("webhooks.insecure", email.webhooks().create(webhook))
            .await?;
        if let Some(created) = created.filter(|webhook| !webhook.id.is_empty()) {
            self.has_made("webhooks.insecure", &url, &created.id)?;
            self.call(
                "webhooks.insecure.delete",
                email.webhooks().delete(&created.id),
            )
            .await?;
            self.has_deleted("webhooks.insecure.delete", &url)?;
        }
        Ok(())
    }

    async fn write_extraction_webhook(&mut self) -> Result<(), Failure> {
        let Some(extraction) = self.extraction.clone() else {
            return Ok(());
        };
        let url = format!("https://{}.example/extraction", self.seen.run);
        self.will_make(Kind::ExtractionWebhook, &url)?;
        let webhook = NewWebhook::new(&url, ["extraction.completed"]);
        let create = extraction.webhooks().create(webhook);
        let created = self.call("extraction.webhooks.create", create).await?;
        let Some(id) = created
            .map(|webhook| webhook.id)
            .filter(|id| !id.is_empty())
        else {
            return Ok(());
        };
        self.has_made("extraction.webhooks.create", &url, &id)?;
        let list = extraction.webhooks();
        self.call("extraction.webhooks.list.created", list.list())
            .await?;
        self.call("extraction.webhooks.delete", list.delete(&id))
            .await?;
        self.has_deleted("extraction.webhooks.delete", &url)?;
        self.call("extraction.webhooks.list.deleted", list.list())
            .await?;
        Ok(())
    }
}

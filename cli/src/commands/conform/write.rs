//! The level `write` of `svc conform`: makes and deletes an audience with contacts, a domain and
//! webhooks. The names of all of them begin with the name of the run. The steps are tables in the
//! order in which they are sent: later ones use the IDs of earlier ones, and each group ends with
//! its deletion. `Examiner::make` records each thing before it is created. What the exchanges mean
//! is decided in `statements.rs` and `points.rs`.

use svc_sdk::email::NewContact;

use super::examiner::{Examiner, Step, step};
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

const AUDIENCE: &[Step] = &[
    step(
        "audiences.created",
        "GET",
        "/api/v1/audiences/{audiences.create}",
        "",
    ),
    step("audiences.list.created", "GET", "/api/v1/audiences", ""),
];
const CONTACTS: &[Step] = &[
    step(
        "contacts.invalid",
        "POST",
        "/api/v1/audiences/{audiences.create}/contacts",
        "{}",
    ),
    step(
        "contacts.list.created",
        "GET",
        "/api/v1/audiences/{audiences.create}/contacts",
        "",
    ),
    step(
        "contacts.page.0",
        "GET",
        "/api/v1/audiences/{audiences.create}/contacts?page=0&pageSize=1",
        "",
    ),
    step(
        "contacts.page.1",
        "GET",
        "/api/v1/audiences/{audiences.create}/contacts?page=1&pageSize=1",
        "",
    ),
    step(
        "contacts.page.2",
        "GET",
        "/api/v1/audiences/{audiences.create}/contacts?page=2&pageSize=1",
        "",
    ),
    step(
        "contacts.page.9",
        "GET",
        "/api/v1/audiences/{audiences.create}/contacts?page=9&pageSize=1",
        "",
    ),
    step(
        "contacts.page",
        "GET",
        "/api/v1/audiences/{audiences.create}/contacts?pageSize=1",
        "",
    ),
];
const CONTACT: &[Step] = &[
    step(
        "contacts.update",
        "PATCH",
        "/api/v1/contacts/{contacts.create}",
        r#"{"name": "Conform Svc", "metadata": {"added": "yes"}, "topics": ["offers"]}"#,
    ),
    step(
        "contacts.unknown-field",
        "PATCH",
        "/api/v1/contacts/{contacts.create}",
        r#"{"name": "Conform Svc", "svcConform": true}"#,
    ),
    step(
        "contacts.list.updated",
        "GET",
        "/api/v1/audiences/{audiences.create}/contacts",
        "",
    ),
    step(
        "contacts.opt-out",
        "PATCH",
        "/api/v1/contacts/{contacts.create}",
        r#"{"subscribed": false}"#,
    ),
    step(
        "contacts.list.opted-out",
        "GET",
        "/api/v1/audiences/{audiences.create}/contacts",
        "",
    ),
    step(
        "contacts.update.email",
        "PATCH",
        "/api/v1/contacts/{contacts.create}",
        r#"{"email": "{run}-9@example.com"}"#,
    ),
    step(
        "contacts.list.same-email",
        "GET",
        "/api/v1/audiences/{audiences.create}/contacts",
        "",
    ),
    step(
        "contacts.delete",
        "DELETE",
        "/api/v1/contacts/{contacts.create}",
        "",
    ),
    step(
        "contacts.list.deleted",
        "GET",
        "/api/v1/audiences/{audiences.create}/contacts",
        "",
    ),
    step(
        "audiences.delete",
        "DELETE",
        "/api/v1/audiences/{audiences.create}",
        "",
    ),
    step(
        "audiences.deleted",
        "GET",
        "/api/v1/audiences/{audiences.create}",
        "",
    ),
];
const DOMAIN: &[Step] = &[
    step("domains.list.created", "GET", "/api/v1/domains", ""),
    step(
        "domains.verify",
        "POST",
        "/api/v1/domains/{domains.create}/verify",
        "",
    ),
    step(
        "domains.delete",
        "DELETE",
        "/api/v1/domains/{domains.create}",
        "",
    ),
    step("domains.list.deleted", "GET", "/api/v1/domains", ""),
];
const WEBHOOK: &[Step] = &[
    step("webhooks.list.created", "GET", "/api/v1/webhooks", ""),
    step(
        "webhooks.test",
        "POST",
        "/api/v1/webhooks/{webhooks.create}/test",
        "",
    ),
];
const WEBHOOK_CHANGES: &[Step] = &[
    step(
        "webhooks.update",
        "PATCH",
        "/api/v1/webhooks/{webhooks.create}",
        r#"{"events": ["email.sent"]}"#,
    ),
    step(
        "webhooks.disable",
        "PATCH",
        "/api/v1/webhooks/{webhooks.create}",
        r#"{"active": false}"#,
    ),
    step("webhooks.list.updated", "GET", "/api/v1/webhooks", ""),
    step(
        "webhooks.delete",
        "DELETE",
        "/api/v1/webhooks/{webhooks.create}",
        "",
    ),
    step("webhooks.list.deleted", "GET", "/api/v1/webhooks", ""),
];
const INSECURE: &[Step] = &[step(
    "webhooks.insecure.delete",
    "DELETE",
    "/api/v1/webhooks/{webhooks.insecure}",
    "",
)];
const ENDPOINT: &[Step] = &[
    step(
        "extraction.webhooks.list.created",
        "GET",
        "/v1/webhooks",
        "",
    ),
    step(
        "extraction.webhooks.delete",
        "DELETE",
        "/v1/webhooks/{extraction.webhooks.create}",
        "",
    ),
    step(
        "extraction.webhooks.list.deleted",
        "GET",
        "/v1/webhooks",
        "",
    ),
];

impl Examiner<'_> {
    pub(super) async fn write(&mut self, receiver: Option<&Receiver>) -> Result<(), Failure> {
        let run = self.seen.run.clone();
        if self.email.is_some() {
            self.write_audience(&run).await?;
            let domain = self.seen.domain();
            if self.make(Kind::Domain, "domains.create", &domain).await? {
                self.follow(DOMAIN).await?;
            }
            self.write_webhooks(&run, receiver).await?;
        }
        let url = format!("https://{run}.example/extraction");
        let (kind, step) = (Kind::ExtractionWebhook, "extraction.webhooks.create");
        if self.extraction.is_some() && self.make(kind, step, &url).await? {
            self.follow(ENDPOINT).await?;
        }
        Ok(())
    }

    async fn write_audience(&mut self, name: &str) -> Result<(), Failure> {
        let is_made = self.make(Kind::Audience, "audiences.create", name).await?;
        let (Some(audience), Some(email)) = (self.seen.id("audiences.create"), self.email.clone())
        else {
            return Ok(());
        };
        if !is_made {
            return Ok(());
        }
        let audience = audience.to_owned();
        self.follow(AUDIENCE).await?;
        for (number, step) in [
            (1, "contacts.create"),
            (2, "contacts.create.more"),
            (3, "contacts.create.more"),
        ] {
            let contact = NewContact::new(self.seen.address(number));
            let contact = contact.name("Svc Conform").metadata("kept", "yes");
            let create = email.contacts().create(&audience, contact.topic("news"));
            if let Some(contact) = self.call(step, create).await? {
                self.keep_id(step, &contact.id);
            }
        }
        self.follow(CONTACTS).await?;
        self.follow_cursor().await?;
        self.follow(CONTACT).await
    }

    /// Tries the names that the parameter for a cursor usually has, if the page has a cursor.
    async fn follow_cursor(&mut self) -> Result<(), Failure> {
        let Some((cursor, first)) = self
            .seen
            .at("contacts.page")
            .and_then(|page| Some((super::points::cursor(&page.json())?, page.body.clone())))
        else {
            return Ok(());
        };
        for name in CURSORS {
            let path = "/api/v1/audiences/{audiences.create}/contacts?pageSize=1";
            let Some(call) = self.request("GET", path, "") else {
                return Ok(());
            };
            let next = self
                .call("contacts.cursor", call.query(name, &cursor))
                .await?;
            if next.is_some_and(|next| next.body[..] != first[..]) {
                self.keep_id("cursor", name);
                return Ok(());
            }
        }
        Ok(())
    }

    async fn write_webhooks(
        &mut self,
        run: &str,
        receiver: Option<&Receiver>,
    ) -> Result<(), Failure> {
        let url = match receiver {
            Some(receiver) => receiver.url_of(run),
            None => format!("https://{run}.example/hook"),
        };
        if self.make(Kind::Webhook, "webhooks.create", &url).await? {
            if let Some(receiver) = receiver {
                receiver.respond(TEST_STATUS);
            }
            self.follow(WEBHOOK).await?;
            if let Some(receiver) = receiver {
                self.receive("delivery.test", receiver, &url, None).await?;
            }
            self.follow(WEBHOOK_CHANGES).await?;
        }
        let url = format!("http://{run}.example.com/hook");
        if self.make(Kind::Webhook, "webhooks.insecure", &url).await? {
            self.follow(INSECURE).await?;
        }
        Ok(())
    }
}

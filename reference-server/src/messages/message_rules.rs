//! The message of an email: its source, which is rendered when it is read, and its delivery into a
//! mailbox of this server. If the recipient's domain is verified here, its owners also receive
//! `email.received`, as for mail from anywhere.
//!
//! A message is rendered and authenticated outside of the transaction that delivers it, and only
//! if someone subscribes to the event. Rendering is deterministic.

use std::sync::Arc;

use crate::app::{App, Shared};
use crate::domains::domain_rows::{self, Signer};
use crate::emails::email_rows::{self, Content, StoredEmail};
use crate::inbound::inbound_rules::{self, AuthenticatedMessage};
use crate::jobs::job::{Job, Queue};
use crate::jobs::job_rows;
use crate::mail::dkim::{SANDBOX_KEY, SigningKey};
use crate::mail::links::Targets;
use crate::mail::mime::Outgoing;
use crate::mail::{authentication, tracking};
use crate::messages::message_rows::{self, Received};
use crate::messages::message_wire::{Direction, MessageSummary};
use crate::model::address::{Address, Mailbox};
use crate::model::error::Failure;
use crate::model::event::Event;
use crate::model::id;
use crate::model::timestamp::Timestamp;
use crate::runtime::{heavy, memory};
use crate::store::{Reader, Tx};
use crate::webhooks::webhook_rows;

/// Puts the message for this recipient into its mailbox.
pub(crate) fn deliver(
    tx: &mut Tx<'_>,
    app: &App,
    email: &StoredEmail,
    recipient: &str,
) -> Result<(), Failure> {
    let id = id::new(id::MESSAGE);
    let owners = owners(tx, app, recipient)?;
    let own_domain = owners
        .iter()
        .find(|(_, organization)| *organization == email.organization);
    let domain = own_domain.map(|(domain, _)| domain.as_str());
    let message = MessageSummary {
        id: id.clone(),
        direction: Direction::Outgoing,
        email_id: Some(email.id.clone()),
        from: email.from.clone(),
        recipient: recipient.to_owned(),
        subject: email.subject.clone(),
        preview: email.preview.clone(),
        attachments: email.attachments,
        created_at: tx.now.into(),
    };
    message_rows::insert(tx, email.organization, message, domain, Received::default())?;
    let is_foreign = |(_, organization): &(String, i64)| *organization != email.organization;
    let subscribers =
        |organization| webhook_rows::subscribers(tx.reader(), organization, Event::EmailReceived);
    if owners.iter().any(is_foreign)
        || domain.is_some() && !subscribers(email.organization)?.is_empty()
    {
        let job = Job::new(Queue::Received, id);
        job_rows::add(tx, email.organization, &job, tx.now, 0, None)?;
    }

    Ok(())
}

/// Organizations that own the recipient's domain on this server. None if the message is
/// relayed: the relay decides where it goes, and may send it back.
fn owners(tx: &Tx<'_>, app: &App, recipient: &str) -> Result<Vec<(String, i64)>, Failure> {
    match Address::parse(recipient) {
        Ok(address)
            if !app
                .relay
                .as_ref()
                .is_some_and(|relay| relay.is_for(recipient)) =>
        {
            domain_rows::owners(tx.reader(), address.domain().as_str(), None)
        }
        _ => Ok(Vec::new()),
    }
}

/// Announces the message that a job is about to the owners of the recipient's domain.
pub(crate) async fn announce(app: &Shared, job: Job) -> Result<(), Failure> {
    let id = job.subject.clone();
    let size =
        app.store.read(
            move |reader| match message_rows::email_and_recipient(reader, &id)? {
                Some((email, _)) => email_rows::content_size(reader, &email),
                None => Ok(0),
            },
        );
    let _reserved = memory::MESSAGES.reserve(size.await?).await;
    let id = job.subject.clone();
    let found = app.store.read(move |reader| {
        let row = message_rows::email_and_recipient(reader, &id)?;
        let Some((email, recipient)) = row else {
            return Ok(None);
        };
        Ok(Message::load(reader, &email)?.map(|message| (message, recipient)))
    });

    // A message deleted in the meantime causes no event.
    let message = match found.await? {
        Some((message, recipient)) => {
            let sender = message.email.organization;
            Some((sender, authenticate(app, message, recipient).await?))
        }
        None => None,
    };
    let recorded = app.store.write_relaxed(move |tx| {
        let is_pending = job_rows::done(tx, &job)?;
        let Some((sender, (message, recipient))) = message.filter(|_| is_pending) else {
            return Ok(());
        };
        let id = &job.subject;
        for (domain, organization) in
            domain_rows::owners(tx.reader(), recipient.domain().as_str(), None)?
        {
            if organization == sender {
                if let Some(results) = &message.results {
                    message_rows::set_authentication(tx, id, results)?;
                }
                inbound_rules::notify_received(tx, sender, id, &recipient, &message)?;
            } else {
                inbound_rules::store_message(tx, organization, &domain, &recipient, &message)?;
            }
        }
        Ok(())
    });

    recorded.await
}

/// Renders and checks the message, as a receiving server would.
async fn authenticate(
    app: &Shared,
    message: Message,
    recipient: String,
) -> Result<(AuthenticatedMessage, Address), Failure> {
    let from = Mailbox::parse(&message.email.from)
        .map_err(Failure::internal)?
        .address;
    let recipient = Address::parse(&recipient).map_err(Failure::internal)?;
    let open = app.settings.is_exposed();
    let address = recipient.as_str().to_owned();
    let render = move || message.source(&address, open);
    let source = Arc::new(heavy::run(render).await?);
    // The message was sent from this machine.
    let peer = (std::net::Ipv4Addr::LOCALHOST.into(), from.domain().as_str());
    let now = app.clock.now();
    let results = authentication::check(&app.resolver, Some(peer), &source, now).await?;
    let source = authentication::without_own_results(Arc::unwrap_or_clone(source));
    let parsed = inbound_rules::parse(source, Some(results));
    Ok((parsed.await?, recipient))
}

/// An email with everything that its source depends on.
pub(crate) struct Message {
    pub(crate) email: StoredEmail,
    content: Content,
    /// `None` if the sender's domain was deleted; the message is then not signed.
    signer: Option<Signer>,
}

impl Message {
    /// Loads an email with its content.
    pub(crate) fn load(reader: Reader<'_>, email: &str) -> Result<Option<Self>, Failure> {
        let Some(email) = email_rows::find(reader, email)? else {
            return Ok(None);
        };

        let content = email_rows::content(reader, &email.id, true)?;
        let signer = domain_rows::signer(reader, &email.domain, email.organization)?;
        Ok(Some(Self {
            email,
            content,
            signer,
        }))
    }

    /// Whether every recipient gets a different message, because it is tracked.
    pub(crate) fn is_individual(&self) -> bool {
        self.email.tracking.is_some() && self.content.html.is_some()
    }

    /// Where its tracked links lead.
    pub(crate) fn targets(&self) -> Targets {
        match (&self.email.tracking, &self.content.html) {
            (Some(tracking), Some(html)) => tracking::targets(tracking, &self.email.id, html),
            _ => Targets::default(),
        }
    }

    /// Renders the RFC 5322 source and signs it with DKIM. Blocks for a time that depends on
    /// the size of the attachments, so do not call it on an async thread.
    ///
    /// `recipient` is an address as in `RecipientState`; it matters only for a tracked email.
    /// If the server is `exposed`, it does not sign with the seeded key, which is public
    /// knowledge.
    pub(crate) fn source(&self, recipient: &str, exposed: bool) -> Result<Vec<u8>, Failure> {
        let email = &self.email;
        let from = Mailbox::parse(&email.from).map_err(Failure::internal)?;
        let to = mailboxes(&email.to)?;
        let cc = mailboxes(&email.cc)?;
        let reply_to = mailboxes(&email.reply_to)?;
        let tracked = match (&email.tracking, &self.content.html) {
            (Some(tracking), Some(html)) => {
                // Two recipients may differ in case only.
                let mut states = self.email.recipients.iter();
                let position = states.position(|state| state.address == recipient);
                Some(tracking::add_to(
                    tracking,
                    &self.email.id,
                    position.unwrap_or(0),
                    html,
                ))
            }
            _ => None,
        };
        let outgoing = Outgoing {
            from: &from,
            to: &to,
            cc: &cc,
            reply_to: &reply_to,
            subject: &email.subject,
            html: tracked.as_deref().or(self.content.html.as_deref()),
            text: self.content.text.as_deref(),
            headers: &self.content.headers,
            attachments: &self.content.attachments,
            message_id: &format!("{}@{}", self.email.id, email.domain),
            date: email
                .sent_at
                .map_or(email.created_at, Timestamp::from)
                .timestamp(),
        };
        let Some(signer) = &self.signer else {
            return Ok(outgoing.source());
        };
        if exposed && signer.key[..] == *SANDBOX_KEY {
            return Ok(outgoing.source());
        }

        let key = SigningKey::from_pkcs8(&signer.key)?;
        outgoing.signed(&key, &email.domain, &signer.selector)
    }
}

fn mailboxes(texts: &[String]) -> Result<Vec<Mailbox>, Failure> {
    texts
        .iter()
        .map(|text| Mailbox::parse(text).map_err(Failure::internal))
        .collect()
}

//! [`Message`]: renders the RFC 5322 source of an accepted email.
//!
//! The source is rendered on demand, when a client reads the message or the relay sends
//! it. Rendering is deterministic.

use crate::mail::dkim::{SANDBOX_KEY, SigningKey};
use crate::mail::links::Targets;
use crate::mail::mime::Outgoing;
use crate::mail::tracking;
use crate::model::address::Mailbox;
use crate::model::error::ApiError;
use crate::store::Reader;
use crate::store::domains::{self, Signer};
use crate::store::emails::{self, Content, StoredEmail};

/// An email with everything that its source depends on.
pub(crate) struct Message {
    pub(crate) email: StoredEmail,
    content: Content,
    /// `None` if the sender's domain was deleted; the message is then not signed.
    signer: Option<Signer>,
}

impl Message {
    /// Loads an email with its content.
    pub(crate) fn load(reader: Reader<'_>, email: &str) -> Result<Option<Self>, ApiError> {
        let Some(email) = emails::find(reader, email)? else {
            return Ok(None);
        };
        let content = emails::content(reader, &email.id, true)?;
        let signer = domains::signer(reader, &email.domain, email.organization)?;
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
    pub(crate) fn source(&self, recipient: &str, exposed: bool) -> Result<Vec<u8>, ApiError> {
        let email = &self.email;
        let from = Mailbox::parse(&email.from).map_err(ApiError::internal)?;
        let (to, cc, reply_to) = (
            mailboxes(&email.to)?,
            mailboxes(&email.cc)?,
            mailboxes(&email.reply_to)?,
        );
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
                .scheduled_at
                .unwrap_or_default()
                .max(email.created_at)
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

fn mailboxes(texts: &[String]) -> Result<Vec<Mailbox>, ApiError> {
    texts
        .iter()
        .map(|text| Mailbox::parse(text).map_err(ApiError::internal))
        .collect()
}

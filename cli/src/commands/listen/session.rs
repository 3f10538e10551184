//! The webhook of a session: created at its start and deleted at its end. A session that is killed
//! leaves its webhook behind, which the next one deletes. It knows such webhooks by their URL.

use std::io::ErrorKind;

use svc_sdk::{Secret, Service};
use tokio::net::TcpStream;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::one_line;
use crate::urls::{is_loopback, parse_url};
use crate::webhook;

/// The last segment of the path of every session's URL.
const SESSION: &str = "svc-listen";

pub(super) struct Session {
    pub(super) id: String,
    /// The secret with which the service signs, if the response has one.
    pub(super) secret: Option<Secret>,
    service: Service,
}

/// The URL of a session's webhook.
pub(super) fn session_url(base: &str) -> Option<String> {
    let mut url = parse_url(base)?;
    url.path_segments_mut().ok()?.pop_if_empty().push(SESSION);
    Some(url.into())
}

impl Session {
    /// Deletes what killed sessions have left behind, and creates a webhook for these events.
    pub(super) async fn start(
        context: &Context,
        service: Service,
        url: &str,
        events: &[String],
    ) -> Result<Self, Failure> {
        for webhook in webhook::list(context, service).await? {
            let Some(left) = webhook.url.filter(|left| is_of_session(left)) else { continue };
            if left == url || is_refused(&left).await {
                webhook::delete(context, service, &webhook.id).await?;
                let name = format!("webhook {} ({})", one_line(&webhook.id), one_line(&left));
                context.out.note(&format!("deleted {name} of a `svc listen` that was killed"));
            }
        }
        let created = webhook::create(context, service, url, events).await?;
        Ok(Self { id: created.id, secret: created.secret, service })
    }

    /// Deletes the webhook. A failure says how to delete it by hand.
    pub(super) async fn end(&self, context: &Context) -> Result<(), Failure> {
        webhook::delete(context, self.service, &self.id)
            .await
            .map_err(|failure| self.not_deleted(context, &failure.details().message))
    }

    /// The failure for a webhook that could not be deleted.
    pub(super) fn not_deleted(&self, context: &Context, why: &str) -> Failure {
        let command = webhook::delete_command(context, self.service, &self.id);
        Failure::other(format!("webhook {} was not deleted: {why}", self.id))
            .code("webhook_not_deleted")
            .hint(format!("delete it: {command}"))
    }
}

fn is_of_session(url: &str) -> bool {
    let last = |url: url::Url| url.path_segments()?.next_back().map(|last| last == SESSION);
    parse_url(url).and_then(last).unwrap_or_default()
}

/// Whether a URL leads to a port of this machine on which nothing listens.
async fn is_refused(url: &str) -> bool {
    let Some(url) = parse_url(url).filter(is_loopback) else { return false };
    let Ok(addresses) = url.socket_addrs(|| None) else { return false };
    let connected = TcpStream::connect(&*addresses).await;
    connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

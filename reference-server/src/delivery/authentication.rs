//! The authentication results of a message that arrives: SPF, DKIM and DMARC.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::control::messages::{Authentication, DkimVerdict, DmarcVerdict, SpfVerdict};
use crate::mail::dkim;
use crate::mail::dns::{self, Resolver};
use crate::mail::mime::authors;
use crate::model::address::Mailbox;
use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::runtime::heavy;

impl Authentication {
    /// As it is stored with a message.
    pub(crate) fn to_json(self) -> Result<String, ApiError> {
        serde_json::to_string(&self).map_err(ApiError::internal)
    }
}

/// Maximum duration of each of the checks, in real time.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);

/// The host that sends a message, and the envelope sender.
pub(crate) struct Peer<'a> {
    pub(crate) ip: IpAddr,
    pub(crate) helo: &'a str,
    /// Empty, like `domain`, for the empty sender of a bounce message.
    pub(crate) local: &'a str,
    pub(crate) domain: &'a str,
}

/// Checks a message. Without a peer, the SPF result is `none`; if the message
/// has no signature either, DMARC is not checked.
pub(crate) async fn check(
    resolver: &Resolver,
    peer: Option<Peer<'_>>,
    source: &Arc<Vec<u8>>,
    now: Millis,
) -> Result<Authentication, ApiError> {
    let spf = match &peer {
        None => SpfVerdict::None,
        Some(Peer { ip, helo, local, domain }) => {
            let spf = dns::evaluate_spf(resolver, *ip, helo, local, domain);
            timeout(CHECK_TIMEOUT, spf).await.unwrap_or(SpfVerdict::TempError)
        }
    };
    let dkim = timeout(CHECK_TIMEOUT, dkim::verify(resolver, source, now)).await;
    let (dkim, signers) = dkim.unwrap_or(Ok((DkimVerdict::TempError, Vec::new())))?;
    let dmarc = if peer.is_none() && dkim == DkimVerdict::None {
        DmarcVerdict::None
    } else {
        // The domain that SPF has checked.
        let sender = peer.map(|peer| if peer.domain.is_empty() { peer.helo } else { peer.domain });
        let sender = sender.filter(|_| spf == SpfVerdict::Pass);
        check_dmarc(resolver, source, sender, &signers).await?
    };
    Ok(Authentication { spf, dkim, dmarc })
}

async fn check_dmarc(
    resolver: &Resolver,
    source: &Arc<Vec<u8>>,
    sender: Option<&str>,
    signers: &[String],
) -> Result<DmarcVerdict, ApiError> {
    let message = Arc::clone(source);
    let authors = move || Ok(authors(&message));
    let authors = heavy::run(authors).await?;
    let [author] = &authors[..] else {
        return Ok(if authors.is_empty() { DmarcVerdict::None } else { DmarcVerdict::PermError });
    };
    let Ok(author) = Mailbox::parse(author) else { return Ok(DmarcVerdict::PermError) };
    let domain = author.address.domain().as_str();
    let dmarc = dns::evaluate_dmarc(resolver, domain, sender, signers);
    Ok(timeout(CHECK_TIMEOUT, dmarc).await.unwrap_or(DmarcVerdict::TempError))
}

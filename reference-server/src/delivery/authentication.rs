//! The authentication results of a message that arrives: SPF and DKIM.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::control::messages::{Authentication, DkimVerdict, SpfVerdict};
use crate::mail::dkim;
use crate::mail::dns::{self, Resolver};
use crate::model::error::ApiError;
use crate::model::time::Millis;

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

/// Checks a message. Without a peer, the SPF result is `none`.
pub(crate) async fn check(
    resolver: &Resolver,
    peer: Option<Peer<'_>>,
    source: &Arc<Vec<u8>>,
    now: Millis,
) -> Result<Authentication, ApiError> {
    let spf = match peer {
        None => SpfVerdict::None,
        Some(Peer { ip, helo, local, domain }) => {
            let spf = dns::evaluate_spf(resolver, ip, helo, local, domain);
            timeout(CHECK_TIMEOUT, spf).await.unwrap_or(SpfVerdict::TempError)
        }
    };
    let dkim = timeout(CHECK_TIMEOUT, dkim::verify(resolver, source, now)).await;
    Ok(Authentication { spf, dkim: dkim.unwrap_or(Ok(DkimVerdict::TempError))? })
}

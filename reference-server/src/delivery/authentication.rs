//! The authentication results of a message that arrives: SPF and DKIM.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::timeout;

use crate::mail::dkim::{self, DkimVerdict};
use crate::mail::dns::{self, Resolver, SpfVerdict};
use crate::model::error::ApiError;
use crate::model::time::Millis;
use crate::store::Store;
use crate::store::in_progress::Job;

/// Maximum duration of the check of SPF, and of that of DKIM, in real time.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);

/// The host that sends a message, and the envelope sender.
pub(crate) struct Peer<'a> {
    pub(crate) ip: IpAddr,
    pub(crate) helo: &'a str,
    /// Empty, like `domain`, for the empty sender of a bounce message.
    pub(crate) local: &'a str,
    pub(crate) domain: &'a str,
}

/// Checks a message as a part of `job`. Without a peer, the SPF result is `none`.
pub(crate) async fn check(
    store: &Arc<Store>,
    resolver: &Resolver,
    job: &Job,
    peer: Option<Peer<'_>>,
    source: &Arc<Vec<u8>>,
    now: Millis,
) -> Result<(SpfVerdict, DkimVerdict), ApiError> {
    let spf = match peer {
        None => SpfVerdict::None,
        Some(Peer { ip, helo, local, domain }) => {
            let spf = dns::evaluate_spf(resolver, ip, helo, local, domain);
            let spf = timeout(CHECK_TIMEOUT, store.in_progress.run_async(job, spf));
            let spf = AssertUnwindSafe(spf).catch_unwind().await;
            let spf = spf.map_err(|_| ApiError::internal("the check of SPF panicked"))?;
            spf.unwrap_or(SpfVerdict::TempError)
        }
    };
    let dkim = timeout(CHECK_TIMEOUT, dkim::verify(store, job, resolver, source, now)).await;
    Ok((spf, dkim.unwrap_or(Ok(DkimVerdict::TempError))?))
}

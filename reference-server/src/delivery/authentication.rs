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

/// Checks a message from a host with this address and domain. Without them, the SPF result is
/// `none`.
pub(crate) async fn check(
    resolver: &Resolver,
    peer: Option<(IpAddr, &str)>,
    source: &Arc<Vec<u8>>,
    now: Millis,
) -> Result<Authentication, ApiError> {
    let spf = match peer {
        None => SpfVerdict::None,
        Some((address, domain)) => {
            let spf = dns::evaluate_spf(resolver, address, domain);
            timeout(CHECK_TIMEOUT, spf)
                .await
                .unwrap_or(SpfVerdict::TempError)
        }
    };
    let dkim = timeout(CHECK_TIMEOUT, dkim::verify(resolver, source, now)).await;
    Ok(Authentication {
        spf,
        dkim: dkim.unwrap_or(Ok(DkimVerdict::TempError))?,
    })
}

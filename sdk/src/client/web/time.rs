//! Time in a browser, by its own clock and timers: tokio has none there, and
//! the standard library's panics.

use std::pin::pin;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use wasm_bindgen_futures::spawn_local;
pub(crate) use web_time::{Duration, Instant};

/// The time of day, for dates in headers.
pub(crate) fn now() -> std::time::SystemTime {
    let since = web_time::SystemTime::now().duration_since(web_time::UNIX_EPOCH);
    std::time::UNIX_EPOCH + since.unwrap_or_default()
}

pub(crate) async fn sleep(duration: Duration) {
    // A timer cannot leave its thread; who waits for it can.
    let (mut over, wait) = oneshot::channel::<()>();
    let milliseconds = u32::try_from(duration.as_millis()).unwrap_or(LONGEST).min(LONGEST);
    spawn_local(async move {
        let timer = gloo_timers::future::TimeoutFuture::new(milliseconds);
        let nobody_waits = pin!(over.closed());
        select(timer, nobody_waits).await;
    });
    // It is dropped when the time is over.
    let _ = wait.await;
}

/// A browser's timer takes a longer time for none.
const LONGEST: u32 = i32::MAX as u32;

pub(crate) async fn sleep_until(deadline: Instant) {
    sleep(deadline.saturating_duration_since(Instant::now())).await;
}

/// The deadline has passed.
pub(crate) struct Elapsed;

pub(crate) async fn timeout_at<F: Future>(
    deadline: Instant,
    future: F,
) -> Result<F::Output, Elapsed> {
    match select(pin!(future), pin!(sleep_until(deadline))).await {
        Either::Left((output, _)) => Ok(output),
        Either::Right(_) => Err(Elapsed),
    }
}

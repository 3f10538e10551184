//! Timers and deadlines in a browser. tokio's timers are not available there, and the
//! standard library's clock panics.

use std::pin::pin;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;
use wasm_bindgen_futures::spawn_local;
pub(crate) use web_time::{Duration, Instant};

/// The wall-clock time, for dates in headers.
pub(crate) fn now() -> std::time::SystemTime {
    let since = web_time::SystemTime::now().duration_since(web_time::UNIX_EPOCH);
    std::time::UNIX_EPOCH + since.unwrap_or_default()
}

pub(crate) async fn sleep(duration: Duration) {
    // A browser timer cannot be sent to another thread, but the receiver can.
    let (mut over, wait) = oneshot::channel::<()>();
    let milliseconds =
        u32::try_from(duration.as_millis()).unwrap_or(MAX_TIMER_MS).min(MAX_TIMER_MS);
    spawn_local(async move {
        let timer = gloo_timers::future::TimeoutFuture::new(milliseconds);
        let receiver_dropped = pin!(over.closed());
        select(timer, receiver_dropped).await;
    });
    // The sender is dropped when the timer fires.
    let _ = wait.await;
}

/// The longest timer of a browser; it treats longer durations as zero.
const MAX_TIMER_MS: u32 = i32::MAX as u32;

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

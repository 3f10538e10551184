//! What an attacker, or an unlucky client, tries: each test is named by the attempt. The
//! sizes are small enough for every run, and large enough to fail without the bounds of
//! `docs/undocumented/both-services.md#bounds`.

use std::time::{Duration, Instant};

mod amplification;
mod caps;
mod deletions;
mod dns;
mod doors;
mod jobs;
mod mail;
mod neighbors;
mod requests;
mod sending;

/// The shortest of three times that this takes. Comparing those of a small and a large input shows
/// whether the work grows faster than the input, on a machine of any speed and load.
async fn shortest(attempt: impl AsyncFn()) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..3 {
        let started = Instant::now();
        attempt().await;
        shortest = shortest.min(started.elapsed());
    }
    shortest
}

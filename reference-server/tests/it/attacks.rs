//! What an attacker, or an unlucky client, tries: each test is named by the attempt. The
//! sizes are small enough for every run, and large enough to fail without the bounds of
//! `reference-server/LIMITS.md`.

use std::time::{Duration, Instant};

mod amplification;
mod cliffs;
mod deletions;
mod dns;
mod doors;
mod jobs;
mod large;
mod mail;
#[cfg(target_os = "linux")]
mod memory;
mod requests;
mod sending;

/// Fails unless `large` takes less than `most` times as long as `small`. Both are measured in turns,
/// and the shortest times are compared: work that grows too fast stays slower in every round. What
/// takes long is interrupted more often on a busy machine, so `most` is several times what is
/// expected.
async fn assert_growth(most: u32, small: impl AsyncFn(), large: impl AsyncFn()) {
    let mut short = Duration::MAX;
    let mut long = Duration::MAX;
    for round in 1..=10 {
        let started = Instant::now();
        small().await;
        short = short.min(started.elapsed());
        let started = Instant::now();
        large().await;
        long = long.min(started.elapsed());
        if round >= 3 && long < short * most {
            return;
        }
    }

    panic!("{long:?}, and not less than {most} times {short:?}");
}

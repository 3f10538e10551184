//! p50 and p99 of calls one after the other; CPU per call at concurrency 64.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::calls::{ACCEPTED, Accepted, MESSAGE, body, email, resend, resend_email, svc, svix};
use crate::peer::Peer;

const CALLS: usize = 20_000;
const MAX_CONCURRENT: usize = 64;
const ROUNDS: usize = 5;

pub async fn print() {
    let peer = Peer::start(ACCEPTED);
    let svix_peer = Peer::start(MESSAGE);
    let client = svc(&peer.url).build().expect("client");
    let url = format!("{}/api/v1/emails", peer.url);
    let reqwest = reqwest::Client::new();
    let (resend, svix) = (resend(&peer.url), svix(&svix_peer.url));
    let (email, body) = (email(), body());
    let payload = serde_json::to_value(&body).expect("json");
    // Turn and turn about, and the least of each counts, for the machine is
    // noisy.
    let mut least: BTreeMap<&str, [f64; 3]> = BTreeMap::new();
    let mut note = |name, figures: [f64; 3]| {
        let least = least.entry(name).or_insert([f64::MAX; 3]);
        *least = std::array::from_fn(|index| least[index].min(figures[index]));
    };
    for _ in 0..ROUNDS {
        let figures = measure(&async || {
            let answer = reqwest.post(&url).bearer_auth("mk_secret").json(&body).send().await;
            answer.expect("answer").json::<Accepted>().await.expect("json");
        })
        .await;
        note("reqwest", figures);
        let figures = measure(&async || {
            resend.emails.send(resend_email(&body)).await.expect("accepted");
        })
        .await;
        note("resend-rs", figures);
        let figures = measure(&async || {
            let message = svix::models::MessageIn::new("email.sent".into(), payload.clone());
            svix.message().create("app_1".into(), message, None).await.expect("accepted");
        })
        .await;
        note("svix", figures);
        let figures = measure(&async || {
            client.emails().send(&email).await.expect("accepted");
        })
        .await;
        note("svc", figures);
    }
    println!("{:<18} {:>10} {:>10} {:>14}", "send", "p50 µs", "p99 µs", "CPU µs at 64");
    for (name, [p50, p99, cpu]) in least {
        println!("{name:<18} {p50:>10.1} {p99:>10.1} {cpu:>14.1}");
    }
}

async fn measure<F: AsyncFn()>(call: &F) -> [f64; 3] {
    let mut times: Vec<Duration> = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        call().await;
        times.push(start.elapsed());
    }
    times.sort();
    let cpu = cpu();
    let lanes = (0..MAX_CONCURRENT).map(|_| async {
        for _ in 0..CALLS / MAX_CONCURRENT {
            call().await;
        }
    });
    futures_util::future::join_all(lanes).await;
    let cpu = (self::cpu() - cpu).as_secs_f64() * 1e6 / (CALLS / MAX_CONCURRENT * MAX_CONCURRENT) as f64;
    let at = |part: usize| times[CALLS * part / 100].as_secs_f64() * 1e6;
    [at(50), at(99), cpu]
}

/// CPU time of this process, its threads and the kernel's work for it included.
pub fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is written to, and is ours.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

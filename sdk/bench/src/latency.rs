//! p50 and p99 of calls one after the other; CPU per call at concurrency 64.

use std::time::{Duration, Instant};

use svc_sdk::EmailClient;

use crate::calls::{ACCEPTED, Accepted, body, email};
use crate::peer::Peer;

const CALLS: usize = 20_000;
const AT_ONCE: usize = 64;

pub async fn print() {
    println!("{:<10} {:>10} {:>10} {:>14}", "", "p50 µs", "p99 µs", "CPU µs at 64");
    let peer = Peer::start(ACCEPTED);
    let client = EmailClient::builder(&peer.url, "mk_secret").build().expect("client");
    let url = format!("{}/api/v1/emails", peer.url);
    let reqwest = reqwest::Client::new();
    let (email, body) = (email(), body());
    let svc = async || {
        client.emails().send(&email).await.expect("accepted");
    };
    let raw = async || {
        let answer = reqwest.post(&url).bearer_auth("mk_secret").json(&body).send().await;
        answer.expect("answer").json::<Accepted>().await.expect("json");
    };
    // Turn and turn about, for the machine is noisy.
    for _ in 0..2 {
        measure("svc", &svc).await;
        measure("reqwest", &raw).await;
    }
}

async fn measure<F: AsyncFn()>(name: &str, call: &F) {
    let mut times: Vec<Duration> = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        call().await;
        times.push(start.elapsed());
    }
    times.sort();
    let cpu = cpu();
    let lanes = (0..AT_ONCE).map(|_| async {
        for _ in 0..CALLS / AT_ONCE {
            call().await;
        }
    });
    futures_util::future::join_all(lanes).await;
    let cpu = (self::cpu() - cpu).as_secs_f64() * 1e6 / (CALLS / AT_ONCE * AT_ONCE) as f64;
    let at = |part: usize| times[CALLS * part / 100].as_secs_f64() * 1e6;
    println!("{name:<10} {:>10.1} {:>10.1} {cpu:>14.1}", at(50), at(99));
}

/// CPU time of this process, its threads included (Linux; 10 ms apart).
pub fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a Linux machine");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime");
    Duration::from_millis(ticks * 10)
}

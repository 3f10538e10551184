//! Latency of sequential calls (p50, p99), and CPU time per call at concurrency 64.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::calls::{ACCEPTED, Accepted, MESSAGE, body, email, resend, resend_email, svc, svix};
use crate::mock_server::MockServer;

const CALLS: usize = 20_000;
const MAX_CONCURRENT: usize = 64;
const ROUNDS: usize = 5;

pub async fn print() {
    let server = MockServer::start(ACCEPTED);
    let svix_server = MockServer::start(MESSAGE);
    let client = svc(&server.url).build().expect("client");
    let url = format!("{}/api/v1/emails", server.url);
    let reqwest = reqwest::Client::new();
    let resend = resend(&server.url);
    let svix = svix(&svix_server.url);
    let email = email();
    let body = body();
    let payload = serde_json::to_value(&body).expect("json");
    // Alternate between clients and keep the minimum, because the machine is noisy.
    let mut least: BTreeMap<&str, [f64; 3]> = BTreeMap::new();
    let mut note = |name, figures: [f64; 3]| {
        let least = least.entry(name).or_insert([f64::MAX; 3]);
        *least = std::array::from_fn(|index| least[index].min(figures[index]));
    };

    for _ in 0..ROUNDS {
        let figures = measure(&async || {
            let response = reqwest
                .post(&url)
                .bearer_auth("mk_secret")
                .json(&body)
                .send()
                .await;
            response
                .expect("response")
                .json::<Accepted>()
                .await
                .expect("json");
        })
        .await;
        note("reqwest", figures);
        let figures = measure(&async || {
            resend
                .emails
                .send(resend_email(&body))
                .await
                .expect("accepted");
        })
        .await;
        note("resend-rs", figures);
        let figures = measure(&async || {
            let message = svix::models::MessageIn::new("email.sent".into(), payload.clone());
            svix.message()
                .create("app_1".into(), message, None)
                .await
                .expect("accepted");
        })
        .await;
        note("svix", figures);
        let figures = measure(&async || {
            client.emails().send(&email).await.expect("accepted");
        })
        .await;
        note("svc", figures);
    }

    println!(
        "{:<18} {:>10} {:>10} {:>14}",
        "send", "p50 µs", "p99 µs", "CPU µs at 64"
    );
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
    let tasks = (0..MAX_CONCURRENT).map(|_| async {
        for _ in 0..CALLS / MAX_CONCURRENT {
            call().await;
        }
    });
    futures_util::future::join_all(tasks).await;
    let cpu =
        (self::cpu() - cpu).as_secs_f64() * 1e6 / (CALLS / MAX_CONCURRENT * MAX_CONCURRENT) as f64;
    let at = |part: usize| times[CALLS * part / 100].as_secs_f64() * 1e6;
    [at(50), at(99), cpu]
}

/// CPU time of this process, including all threads and system time.
pub fn cpu() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable `timespec`.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

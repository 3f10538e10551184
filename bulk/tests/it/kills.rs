//! Jobs of thousands of rows whose processes are killed at random: no email is sent twice, and none is
//! missing except those that are reported as unknown. With idempotency keys, each is sent once.
//!
//! `SVC_BULK_KILLS` says how often each job is disturbed, which then has 10 000 rows. The tests with
//! Redis print `NOT RUN` if `redis-server` is not installed; with `SVC_TEST_REDIS=1` they fail instead.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream;
use serde_json::{Value, json};
use svc_bulk::{Job, JobInfo, Journal, JournalState};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use crate::mock_server::{read_request, response, response_with_headers};

/// How long a test waits for a job.
const PATIENCE: Duration = Duration::from_secs(240);

/// Longer than any of these tests.
const KEY_LIFE: Duration = Duration::from_secs(86_400);

/// How often a job is disturbed, if the environment says so.
fn kills_asked_for() -> Option<usize> {
    std::env::var("SVC_BULK_KILLS").ok()?.parse().ok()
}

fn kills() -> usize {
    kills_asked_for().unwrap_or(4)
}

fn rows() -> u64 {
    if kills_asked_for().is_some() {
        10_000
    } else {
        2_500
    }
}

/// A service that honors idempotency keys. It cuts some connections after it has processed their
/// request, and responds to some requests that it has not processed with 429.
#[derive(Clone)]
struct Service {
    url: String,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    requests: usize,
    /// Further requests wait once there were as many.
    most: usize,
    /// How many emails were sent to each address.
    emails: HashMap<String, usize>,
    /// The response to the request with each key.
    keys: HashMap<String, String>,
}

impl Service {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let service = Self {
            url,
            seen: Arc::default(),
        };
        let accepting = service.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let service = accepting.clone();
                tokio::spawn(async move {
                    let mut buffer = Vec::new();
                    while let Some(request) = read_request(&mut stream, &mut buffer).await {
                        sleep(Duration::from_millis(fastrand::u64(0..10))).await;
                        if fastrand::u32(0..20) == 0 {
                            let limited = response_with_headers(429, "Retry-After: 0\r\n", "{}");
                            let _ = stream.write_all(limited.as_bytes()).await;
                            continue;
                        }
                        while service.is_held() {
                            sleep(Duration::from_millis(1)).await;
                        }
                        let key = request.header("idempotency-key").map(str::to_owned);
                        let response = service.process(&request.body, key);
                        // The process may be killed before it has read the response.
                        sleep(Duration::from_millis(fastrand::u64(0..10))).await;
                        if fastrand::u32(0..40) == 0
                            || stream.write_all(response.as_bytes()).await.is_err()
                        {
                            break;
                        }
                    }
                });
            }
        });
        service
    }

    fn process(&self, body: &str, key: Option<String>) -> String {
        let mut seen = self.seen.lock().unwrap();
        seen.requests += 1;
        if let Some(earlier) = key.as_ref().and_then(|key| seen.keys.get(key)) {
            return earlier.clone();
        }
        let emails: Vec<Value> = serde_json::from_str(body).unwrap();
        for email in &emails {
            let to = email["to"][0].as_str().unwrap().to_owned();
            *seen.emails.entry(to).or_default() += 1;
        }
        let result = |(index, email): (usize, &Value)| json!({"index": index, "id": format!("eml_{}", email["to"][0].as_str().unwrap())});
        let results: Vec<_> = emails.iter().enumerate().map(result).collect();
        let response = response(200, &json!({"results": results}).to_string());
        seen.keys.extend(key.map(|key| (key, response.clone())));
        response
    }

    fn requests(&self) -> usize {
        self.seen.lock().unwrap().requests
    }

    fn is_held(&self) -> bool {
        let seen = self.seen.lock().unwrap();
        seen.requests >= seen.most
    }

    /// Starts a process that sends; see `sender`.
    fn sender(&self, place: &str, has_keys: bool) -> Sender {
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "kills::sender"])
            .envs([("BULK_URL", self.url.as_str()), ("BULK_PLACE", place)])
            .env("BULK_KEYS", has_keys.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Sender(process.unwrap())
    }

    /// Waits until the service has processed a few more requests, or a process has ended. As long as
    /// disturbances are left, it processes no more until the next call, so that no job ends early.
    async fn progress(&self, senders: &mut [Sender], left: usize) {
        let enough = self.requests() + fastrand::usize(1..6);
        self.seen.lock().unwrap().most = if left > 0 { enough } else { usize::MAX };
        while self.requests() < enough && senders.iter_mut().all(Sender::is_running) {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(fastrand::u64(0..15))).await;
    }

    /// Compares what was sent with what the job knows, and returns how many rows are unknown.
    fn check(&self, state: &JournalState) -> u64 {
        let seen = self.seen.lock().unwrap();
        let twice = seen.emails.iter().filter(|(_, count)| **count > 1);
        assert_eq!(twice.count(), 0, "emails were sent twice");
        let (mut accepted, mut unknown) = (0, 0);
        for row in 0..rows() {
            let was_sent = seen.emails.contains_key(&address(row));
            if state.is_unknown(row) {
                unknown += 1;
            } else {
                assert!(state.is_settled(row) && was_sent, "row {row} is lost");
                accepted += 1;
            }
        }
        let totals = state.totals();
        assert_eq!((totals.accepted, totals.unknown), (accepted, unknown));
        assert_eq!((totals.refused, totals.invalid), (0, 0));
        assert!(
            accepted > rows() / 10,
            "{accepted} of {} accepted: too many disturbances",
            rows()
        );
        unknown
    }
}

/// A process that is killed when the test ends.
struct Sender(Child);

impl Sender {
    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Returns whether it was still running.
    fn kill(&mut self) -> bool {
        let was_running = self.is_running();
        let _ = self.0.kill();
        self.0.wait().unwrap();
        was_running
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.kill();
    }
}

fn address(row: u64) -> String {
    format!("p{row}@example.test")
}

#[expect(clippy::unnecessary_wraps, reason = "as a job needs it")]
fn email(row: &u64) -> Result<Email, String> {
    Ok(Email::new("shop@example.test", address(*row), "Hi").text("Hello"))
}

/// The process that the tests start and kill.
#[tokio::test]
#[ignore = "started by the tests of this file"]
async fn sender() {
    let Ok(url) = std::env::var("BULK_URL") else {
        return;
    };
    let [place, keys] = ["BULK_PLACE", "BULK_KEYS"].map(|name| std::env::var(name).unwrap());
    let client = EmailClient::builder(url, "k").no_proxy().build().unwrap();
    let job = Job::new(&client)
        .request_size(20)
        .idempotency_key_life((keys == "true").then_some(KEY_LIFE));
    // What stops a job, such as requests whose outcome is unknown, is continued by the next process.
    #[cfg(feature = "redis")]
    if place.starts_with("redis") {
        let queue = redis::queue(&place).await;
        let _ = job.work(&queue, redis::JOB, email).await;
        return;
    }
    let mut journal = Journal::open(place, &JobInfo::new("people")).unwrap();
    let rows = (0..rows()).map(|number| Ok::<_, io::Error>((number, number)));
    let _ = job.run(stream::iter(rows), email, &mut journal).await;
}

/// Runs a job with a journal, whose process is killed again and again. Returns how many rows are
/// unknown at the end.
async fn killed_job_with_a_journal(has_keys: bool) -> u64 {
    let (service, folder) = (Service::start().await, tempfile::tempdir().unwrap());
    let path: PathBuf = folder.path().join("job.ndjson");
    let (end, mut left) = (Instant::now() + PATIENCE, kills());
    loop {
        assert!(Instant::now() < end, "the job is not complete");
        let mut running = [service.sender(path.to_str().unwrap(), has_keys)];
        service.progress(&mut running, left).await;
        if left > 0 {
            left -= usize::from(running[0].kill());
            continue;
        }
        while running[0].is_running() {
            sleep(Duration::from_millis(5)).await;
        }
        let state = Journal::read(&path, JournalState::default())
            .unwrap()
            .1
            .stopped();
        let totals = state.totals();
        if totals.accepted + totals.unknown == rows() && (!has_keys || totals.unknown == 0) {
            return service.check(&state);
        }
    }
}

#[tokio::test]
async fn a_killed_job_sends_nothing_twice_and_names_what_is_unknown() {
    assert!(
        killed_job_with_a_journal(false).await > 0,
        "nothing had an effect"
    );
}

#[tokio::test]
async fn with_keys_a_killed_job_sends_each_email_once() {
    assert_eq!(killed_job_with_a_journal(true).await, 0);
}

#[cfg(feature = "redis")]
mod redis {
    use std::path::Path;

    use svc_bulk::{RedisQueue, SendState};

    use super::*;
    use crate::jobs::{Act, BatchServer};

    pub(super) const JOB: &str = "job";

    pub(super) async fn queue(url: &str) -> RedisQueue {
        RedisQueue::connect(url, None)
            .await
            .unwrap()
            .lease(Duration::from_secs(2))
    }

    /// Starts Redis, which keeps what it has confirmed in this directory.
    async fn start(directory: &Path) -> Option<Sender> {
        let socket = directory.join("redis.sock");
        let _ = std::fs::remove_file(&socket);
        let started = Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
            ])
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(directory)
            .stdout(Stdio::null())
            .spawn();
        let process = match started {
            Ok(process) => Sender(process),
            Err(error) => {
                let required = std::env::var_os("SVC_TEST_REDIS").is_some_and(|value| value == "1");
                assert!(
                    !required,
                    "SVC_TEST_REDIS=1, but redis-server cannot be started: {error}"
                );
                // Not captured by the harness, which hides the output of passing tests.
                let text = format!("NOT RUN: redis-server ({error})\n");
                io::Write::write_all(&mut io::stderr(), text.as_bytes()).unwrap();
                return None;
            }
        };
        while !socket.exists() {
            sleep(Duration::from_millis(5)).await;
        }
        Some(process)
    }

    /// As with a journal, but three processes share the job, and Redis is killed, too.
    async fn killed_job_in_redis(has_keys: bool) -> Option<u64> {
        let (service, folder) = (Service::start().await, tempfile::tempdir().unwrap());
        let mut server = start(folder.path()).await?;
        let url = format!(
            "redis+unix://{}",
            folder.path().join("redis.sock").display()
        );
        let queue = queue(&url).await;
        let rows = (0..rows()).map(|number| Ok((number, number)));
        let mut info = JobInfo::new("people");
        info.job = JOB.to_owned();
        queue.create(&info, 0, &[], rows).await.unwrap();
        let (end, mut left) = (Instant::now() + PATIENCE, kills());
        let mut workers = [0; 3].map(|_| service.sender(&url, has_keys));
        while queue.status(JOB).await.unwrap().state != SendState::Complete {
            assert!(Instant::now() < end, "the job is not complete");
            service.progress(&mut workers, left).await;
            match left {
                0 => {}
                _ if left.is_multiple_of(4) => {
                    left -= usize::from(server.kill());
                    server = start(folder.path()).await?;
                }
                _ => left -= usize::from(workers[fastrand::usize(0..3)].kill()),
            }
            for worker in &mut workers {
                if !worker.is_running() {
                    *worker = service.sender(&url, has_keys);
                }
            }
        }
        assert_eq!(
            left, 0,
            "the job was complete before it was disturbed that often"
        );
        let status = queue.status(JOB).await.unwrap();
        let mut state = JournalState::default();
        for chunk in 0..status.chunks {
            state = queue.read(JOB, chunk, state).await.unwrap();
        }
        let state = state.stopped();
        assert_eq!(status.totals, state.totals());
        Some(service.check(&state))
    }

    /// The service would take the repetition for a new request.
    #[tokio::test]
    async fn a_worker_does_not_repeat_a_request_whose_key_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let Some(_server) = start(folder.path()).await else {
            return;
        };
        let queue = queue(&format!(
            "redis+unix://{}/redis.sock",
            folder.path().display()
        ))
        .await;
        let mut info = JobInfo::new("people");
        info.job = JOB.to_owned();
        let rows = (20..30_u64).map(|number| Ok((number, number)));
        queue.create(&info, 0, &[], rows).await.unwrap();
        let service = BatchServer::start(&[Act::Late]).await;
        let job = Job::new(&service.client()).idempotency_key_life(Duration::from_millis(20));
        let done = job.work(&queue, JOB, crate::jobs::address).await.unwrap();
        assert_eq!((done.unknown, service.requests().len()), (10, 1));
        // Rows that were refused, and unknown ones only if they are asked for.
        assert_eq!(queue.reopen(JOB, true, false).await.unwrap(), 0);
        assert_eq!(queue.reopen(JOB, false, true).await.unwrap(), 10);
    }

    #[tokio::test]
    async fn a_job_with_killed_workers_sends_nothing_twice_and_names_what_is_unknown() {
        let Some(unknown) = killed_job_in_redis(false).await else {
            return;
        };
        assert!(unknown > 0, "nothing had an effect");
    }

    #[tokio::test]
    async fn with_keys_a_job_with_killed_workers_sends_each_email_once() {
        let Some(unknown) = killed_job_in_redis(true).await else {
            return;
        };
        assert_eq!(unknown, 0);
    }
}

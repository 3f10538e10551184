//! `svc bulk work` on a real Redis: workers and Redis are killed and restarted, a worker is
//! suspended for longer than its lease, and the clocks of the workers differ. No email is sent
//! twice, and none is missing except those that are reported as unknown.
//!
//! If `redis-server` is not installed, the tests print `NOT RUN` and pass. With
//! `SVC_TEST_REDIS=1` they fail instead.

mod kills;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use svc_bulk::{QueueStatus, RedisQueue};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::bulk::{KEY, Receiver};

/// The deadline of an attempt of a worker, whose lease is one and a half times as long.
const TIMEOUT: &str = "1334ms";

/// How long a test waits for a job.
const TIME_LIMIT: Duration = Duration::from_secs(120);

#[tokio::test]
async fn all_workers_share_the_rate_and_obey_pause_resume_and_cancel() {
    let Some(job) = Queued::new(false).await else {
        return;
    };
    let start = Instant::now();
    let id = job.plan(1_000, &["--rate", "100/s"]).await;
    let mut workers = [job.work(&id, None, TIMEOUT), job.work(&id, None, TIMEOUT)];
    job.until(&id, "300 emails are sent", |status| {
        status.totals.accepted >= 300
    })
    .await;
    // The fourth request is due three seconds after the first.
    assert!(
        start.elapsed() >= Duration::from_secs(2),
        "two workers exceed the rate"
    );

    let paused = job.svc(&["bulk", "pause", &id]).await;
    assert_eq!(paused["state"], "paused");
    assert_eq!(paused["workers"], 2, "{paused}");
    // What was in flight is completed, and then nothing more for two requests' time.
    let totals = async || job.queue.status(&id).await.expect("a status").totals;
    let mut before = totals().await;
    let before = loop {
        sleep(Duration::from_secs(2)).await;
        match totals().await {
            same if same == before => break same,
            more => before = more,
        }
    };
    assert!(before.accepted < 1_000, "a paused job is sent");

    let resumed = job.svc(&["bulk", "continue", &id]).await;
    assert_eq!(resumed["state"], "running");
    let more = before.accepted;
    job.until(&id, "it goes on", |status| status.totals.accepted > more)
        .await;
    let cancelled = job.svc(&["bulk", "cancel", &id]).await;
    assert_eq!(cancelled["state"], "cancelled");
    for worker in &mut workers {
        let ended = tokio::time::timeout(TIME_LIMIT, worker.wait()).await;
        assert_eq!(
            ended.expect("the worker ends").expect("a status").code(),
            Some(1)
        );
    }
    let status = job.queue.status(&id).await.expect("a status");
    assert!(
        status.totals.accepted < 1_000 && status.totals.unknown == 0,
        "{status:?}"
    );
    assert_eq!(status.workers, 0, "{status:?}");
    let again = job.svc_fails(&["bulk", "continue", &id]).await;
    assert_eq!(again["error"]["code"], "job_is_cancelled", "{again}");
}

#[tokio::test]
async fn requests_in_flight_of_a_killed_worker_are_unknown_when_its_lease_has_ended() {
    let Some(job) = Queued::new(false).await else {
        return;
    };
    job.receiver
        .fault(&json!({"latency": "5s", "times": 1_000_000}))
        .await;
    let id = job.plan(300, &[]).await;
    let mut worker = job.work(&id, None, "1s");
    job.until_requests(&id, "two are in flight", |in_flight, _| in_flight == 2)
        .await;
    worker.kill().await.expect("killed");
    let cancelled = job.svc(&["bulk", "cancel", &id]).await;
    assert_eq!(cancelled["state"], "cancelled");
    let has_ended = |status: &QueueStatus| status.totals.unknown == 200 && status.workers == 0;
    job.until(&id, "the lease has ended", has_ended).await;
    let status = job.svc(&["bulk", "status", &id]).await;
    let counts = [&status["unknown"], &status["not_sent"], &status["workers"]];
    assert_eq!(counts, [200, 100, 0], "{status}");
    // The beginning of the id is enough.
    let start = &id[..id.len() - 6];
    let same = job
        .svc(&["bulk", "status", start, "--queue", &job.redis.url()])
        .await;
    assert_eq!(same["job"], id.as_str(), "{same}");
    assert_eq!(job.unknown(&id).await.len(), 200);
    let jobs = job.svc(&["bulk", "list"]).await;
    assert_eq!(
        [&jobs[0]["state"], &jobs[0]["unknown"]],
        [&json!("cancelled"), &json!(200)]
    );
}

/// The service limits every request, so that the worker tries again and again.
#[tokio::test]
async fn a_pause_and_a_cancellation_reach_requests_between_two_attempts() {
    let Some(job) = Queued::new(false).await else {
        return;
    };
    let limit = json!({"status": 429, "headers": {"retry-after": "1"}, "times": 1_000_000});
    job.receiver.fault(&limit).await;
    let id = job.plan(400, &[]).await;
    let mut worker = job.work(&id, None, "40m");
    job.until_requests(&id, "some were limited", |_, all| all >= 3)
        .await;
    job.svc(&["bulk", "pause", &id]).await;
    let seen = job
        .until_requests(&id, "none is in flight", |in_flight, _| in_flight == 0)
        .await;
    sleep(Duration::from_secs(2)).await;
    let all = job
        .until_requests(&id, "none is in flight", |in_flight, _| in_flight == 0)
        .await;
    assert_eq!(all, seen, "a paused job is tried again");
    job.svc(&["bulk", "continue", &id]).await;
    job.until_requests(&id, "it goes on", |_, all| all > seen)
        .await;
    job.svc(&["bulk", "cancel", &id]).await;
    let ended = tokio::time::timeout(TIME_LIMIT, worker.wait()).await;
    assert_eq!(
        ended.expect("the worker ends").expect("a status").code(),
        Some(1)
    );
    let status = job.svc(&["bulk", "status", &id]).await;
    assert_eq!(
        [&status["unknown"], &status["not_sent"]],
        [0, 400],
        "{status}"
    );
    assert_eq!(job.svc(&["bulk", "report", &id, "--json"]).await, json!([]));
}

/// The sender's domain is not verified any more: every row is refused, until it is verified.
#[tokio::test]
async fn refusals_for_a_cause_of_the_whole_job_pause_it_and_its_rows_are_sent_later() {
    let Some(job) = Queued::new(false).await else {
        return;
    };
    let error = json!({"code": "domain_not_verified", "message": "shop.test is not verified"});
    let refused = |codes: &Value| {
        let results = (0..100).map(|index| json!({"index": index, "error": codes}));
        json!({"results": results.collect::<Vec<_>>()})
    };
    let fault = json!({"operation": "emails.send_batch", "status": 200, "body": refused(&error),
        "skip": 3, "times": 1_000_000});
    job.receiver.fault(&fault).await;
    let id = job.plan(2_000, &[]).await;
    let args = ["bulk", "work", &id];
    let failed = job.svc_fails(&args).await;
    assert_eq!(failed["error"]["code"], "domain_not_verified", "{failed}");
    let status = job.svc(&["bulk", "status", &id]).await;
    assert_eq!(status["state"], "paused");
    let counts = ["accepted", "refused", "unknown", "not_sent"].map(|name| &status[name]);
    assert_eq!(counts, [300, 0, 0, 1_700], "{status}");
    let cause = job
        .queue
        .status(&id)
        .await
        .expect("a status")
        .cause
        .expect("a cause");
    assert_eq!(cause.message.as_deref(), Some("shop.test is not verified"));

    job.receiver.remove_faults().await;
    // Some are refused one by one, and sent again on request.
    let error = json!({"code": "recipient_suppressed", "message": "no"});
    let fault = json!({"operation": "emails.send_batch", "status": 200, "body": refused(&error)});
    job.receiver.fault(&fault).await;
    job.svc(&["bulk", "continue", &id]).await;
    assert_eq!(
        job.work(&id, None, TIMEOUT)
            .wait()
            .await
            .expect("a status")
            .code(),
        Some(11)
    );
    let report = job.svc(&["bulk", "report", &id, "--json"]).await;
    let refused = report
        .as_array()
        .expect("a list")
        .iter()
        .filter(|row| row["status"] == "refused");
    assert_eq!(
        refused
            .filter(|row| row["code"] == "recipient_suppressed")
            .count(),
        100
    );
    job.svc(&["bulk", "resume", &id, "--refused"]).await;
    assert_eq!(
        job.work(&id, None, TIMEOUT)
            .wait()
            .await
            .expect("a status")
            .code(),
        Some(0)
    );
    let received = job.receiver.received().await;
    assert_eq!(
        (received.len(), crate::bulk::twice(&received).len()),
        (2_000, 0)
    );
    let report = job.svc(&["bulk", "report", &id, "--json"]).await;
    let rows = report.as_array().expect("a list");
    assert!(rows.len() == 2_000 && rows.iter().all(|row| row["status"] == "accepted"));
}

#[tokio::test]
async fn a_redis_that_may_lose_the_job_is_refused() {
    let Some(job) = Queued::new(false).await else {
        return;
    };
    let mut connection = job.redis.connection().await;
    let mut set = async |value: &str| {
        let set = redis::cmd("CONFIG")
            .arg("SET")
            .arg("appendonly")
            .arg(value)
            .to_owned();
        let ok: String = set.query_async(&mut connection).await.expect("set");
        assert_eq!(ok, "OK");
    };
    set("no").await;
    let plan = job.plan_args(10, &[]);
    let refused = job
        .svc_fails(&plan.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    assert_eq!(refused["error"]["code"], "queue_not_durable", "{refused}");
    set("yes").await;
    let id = job.plan(10, &[]).await;
    set("no").await;
    let refused = job.svc_fails(&["bulk", "work", &id]).await;
    assert_eq!(refused["error"]["code"], "queue_not_durable", "{refused}");
    assert!(job.receiver.received().await.is_empty());
}

/// As it does without a queue, and a send from this machine knows them, too.
#[tokio::test]
async fn a_limit_goes_on_after_the_jobs_in_redis() {
    let Some(job) = Queued::new(false).await else {
        return;
    };
    let mut args = job.plan_args(10, &["--limit", "6"]);
    args.retain(|arg| arg != "--again");
    let args = args.iter().map(String::as_str).collect::<Vec<_>>();
    for count in [6, 4] {
        assert_eq!(job.svc(&args).await["total"], count);
    }
    let error = job.svc_fails(&args).await;
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.starts_with("no row can be sent"), "{error}");
    let here = args
        .iter()
        .filter(|arg| !["--queue", "--limit", "6"].contains(*arg));
    for more in [&[][..], &["--dry-run"]] {
        let here = here.clone().chain(more).copied().collect::<Vec<_>>();
        let error = job.svc_fails(&here).await;
        assert_eq!(error["error"]["code"], "sent_again", "{error}");
    }
}

#[tokio::test]
async fn rows_that_are_unknown_are_sent_again_on_the_operators_word() {
    let Some(job) = Queued::new(false).await else {
        return;
    };
    let fault = json!({"operation": "emails.send_batch", "drop": "before", "times": 1});
    job.receiver.fault(&fault).await;
    let plan = job.plan_args(150, &["--header", "X-Row: {{ number }}"]);
    let planned = job
        .svc(&plan.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    let id = planned["job"].as_str().expect("an id").to_owned();
    let worked = job.svc(&["bulk", "work", &id]).await;
    assert_eq!(worked["state"], "unknown", "{worked}");
    let unknown = job.unknown(&id).await;
    assert!(!unknown.is_empty());
    let resumed = job
        .svc(&["bulk", "resume", &id, "--unknown", "resend"])
        .await;
    assert_eq!(resumed["state"], "running");
    assert_eq!(
        job.work(&id, None, TIMEOUT)
            .wait()
            .await
            .expect("a status")
            .code(),
        Some(0)
    );
    assert_eq!(job.unknown(&id).await, BTreeSet::new());
    assert_eq!(job.receiver.received().await.len(), 150);
    let report = job.svc(&["bulk", "report", &id, "--json"]).await;
    let rows = report.as_array().expect("a list");
    assert!(
        rows.iter().all(|row| row["status"] == "accepted"),
        "{report:?}"
    );
    let list = job.svc(&["bulk", "list"]).await;

    let outputs = [planned, worked, resumed, report, list];
    for (command, output) in ["send", "work", "resume", "report", "list"]
        .iter()
        .zip(outputs)
    {
        let schema = job.svc(&["schema", "bulk", command]).await;
        let validator = jsonschema::validator_for(&schema["output"]).expect("a schema");
        let problems = validator
            .iter_errors(&output)
            .map(|problem| problem.to_string());
        assert_eq!(
            problems.collect::<Vec<_>>(),
            [""; 0],
            "bulk {command}: {output}"
        );
    }
}

/// A job of this machine whose ID begins in the same way stays.
#[tokio::test]
async fn a_damaged_job_is_removed_from_redis() {
    let Some(job) = Queued::new(false).await else {
        return;
    };
    let here = job.plan_args(1, &[]);
    let here = here
        .iter()
        .filter(|arg| *arg != "--queue")
        .map(String::as_str);
    let here = job.svc(&here.collect::<Vec<_>>()).await;
    let id = job.plan(2, &[]).await;
    let mut connection = job.redis.connection().await;
    let key = format!("svc:bulk:{{{id}}}");
    let damage = redis::cmd("HSET")
        .arg(key)
        .arg("info")
        .arg("x")
        .exec_async(&mut connection)
        .await;
    damage.expect("written");
    let remove = [
        "bulk",
        "remove",
        &id[..4],
        "--queue",
        &job.redis.url(),
        "--yes",
    ];
    assert_eq!(job.svc(&remove).await, json!({"id": id, "deleted": true}));
    let list = job.svc(&["bulk", "list"]).await;
    let ids = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| &one["job"]);
    assert_eq!(ids.collect::<Vec<_>>(), [&here["job"]]);
}

/// A sandbox, a Redis, and the command line.
struct Queued {
    receiver: Receiver,
    redis: Redis,
    queue: RedisQueue,
    home: tempfile::TempDir,
}

impl Queued {
    async fn new(with_keys: bool) -> Option<Self> {
        let redis = Redis::start().await?;
        let receiver = Receiver::start().await;
        let queue = RedisQueue::connect(&redis.url(), None)
            .await
            .expect("connected");
        let home = tempfile::tempdir().expect("a directory");
        let profile = match with_keys {
            true => "[profiles.default.dialect]\nidempotency = \"honored\"\n",
            false => "[profiles.default]\n",
        };
        let config = home.path().join(".config/svc");
        std::fs::create_dir_all(&config).expect("created");
        std::fs::write(config.join("config.toml"), profile).expect("written");
        Some(Self {
            receiver,
            redis,
            queue,
            home,
        })
    }

    fn plan_args(&self, rows: usize, more: &[&str]) -> Vec<String> {
        let lines: String = (0..rows).map(|n| format!("{},{n}\n", address(n))).collect();
        let people = format!("email,number\n{lines}");
        std::fs::write(self.home.path().join("people.csv"), people).expect("written");
        let plan = "bulk send people.csv --queue --again --from hello@sandbox.test --subject Hi --text Hello --yes";
        plan.split(' ')
            .chain(more.iter().copied())
            .map(str::to_owned)
            .collect()
    }

    /// Queues a job and returns its id.
    async fn plan(&self, rows: usize, more: &[&str]) -> String {
        let args = self.plan_args(rows, more);
        let planned = self
            .svc(&args.iter().map(String::as_str).collect::<Vec<_>>())
            .await;
        assert_eq!(planned["state"], "running", "{planned}");
        planned["job"].as_str().expect("an id").to_owned()
    }

    /// Starts a worker, the `n`th of some whose clocks differ.
    fn work(&self, id: &str, n: Option<usize>, timeout: &str) -> Child {
        let args = [
            "bulk",
            "work",
            id,
            "--timeout",
            timeout,
            "--concurrency",
            "2",
        ];
        let mut command = self.command(&args);
        if let (Some(library), Some(n)) = (fake_clock(), n) {
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            command.env("FAKETIME", ["+0", "-3h", "+2h", "-40s"][n]);
        }
        command.stdout(Stdio::null()).spawn().expect("svc starts")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svc-under-test"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.home.path())
            .env("XDG_STATE_HOME", self.home.path().join("state"))
            .env("SVC_EMAIL_URL", self.receiver.server.base_url())
            .env("SVC_EMAIL_KEY", KEY)
            .env("SVC_BULK_QUEUE", self.redis.url())
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn svc(&self, args: &[&str]) -> Value {
        let mut command = self.command(args);
        let output = command
            .stderr(Stdio::piped())
            .output()
            .await
            .expect("svc runs");
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("no JSON: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// The error of a command.
    async fn svc_fails(&self, args: &[&str]) -> Value {
        let mut command = self.command(args);
        let output = command
            .stderr(Stdio::piped())
            .output()
            .await
            .expect("svc runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let error = stderr
            .lines()
            .find_map(|line| serde_json::from_str(line).ok());
        error.unwrap_or_else(|| panic!("no error: {stderr}"))
    }

    async fn until(&self, id: &str, what: &str, is_so: impl Fn(&QueueStatus) -> bool) {
        let end = Instant::now() + TIME_LIMIT;
        loop {
            let status = self.queue.status(id).await.expect("a status");
            if is_so(&status) {
                return;
            }
            assert!(
                Instant::now() < end,
                "waited 120 s until {what}: {status:?}"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for requests in flight, and for requests of the job in all, according to its log.
    async fn until_requests(
        &self,
        id: &str,
        what: &str,
        is_so: impl Fn(usize, usize) -> bool,
    ) -> usize {
        let end = Instant::now() + TIME_LIMIT;
        let mut connection = self.redis.connection().await;
        loop {
            let log = redis::cmd("HVALS")
                .arg(format!("svc:bulk:{{{id}}}:log"))
                .to_owned();
            let logs: Vec<String> = log.query_async(&mut connection).await.expect("logs");
            let (mut all, mut ended) = (0, 0);
            for entry in logs.iter().flat_map(|log| log.lines()) {
                match entry {
                    _ if entry.starts_with(r#"{"intent""#) => all += 1,
                    _ if entry.starts_with(r#"{"reopened""#) => {}
                    _ => ended += 1,
                }
            }
            if is_so(all - ended, all) {
                return all;
            }
            assert!(
                Instant::now() < end,
                "waited 120 s until {what}: {ended} of {all} have ended"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The addresses that the report calls unknown.
    async fn unknown(&self, id: &str) -> BTreeSet<String> {
        let report = self.svc(&["bulk", "report", id, "--json"]).await;
        let report = report.as_array().expect("a list").clone();
        let unknown = report.iter().filter(|row| row["status"] == "unknown");
        unknown
            .map(|row| row["address"].as_str().expect("an address").to_owned())
            .collect()
    }
}

fn address(n: usize) -> String {
    format!("p{n}@example.test")
}

/// The library of the tool `faketime`, if it is installed.
fn fake_clock() -> Option<&'static str> {
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
    Path::new(library).exists().then_some(library)
}

/// A Redis server with an append-only file, on its own Unix socket. It is killed on drop.
struct Redis {
    process: Child,
    directory: tempfile::TempDir,
}

impl Redis {
    async fn start() -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let process = spawn(directory.path()).await?;
        Some(Self { process, directory })
    }

    fn url(&self) -> String {
        format!(
            "redis+unix://{}",
            self.directory.path().join("redis.sock").display()
        )
    }

    /// Kills the server and starts it again with what is in its file.
    async fn restart(&mut self) {
        self.process.kill().await.expect("killed");
        self.process = spawn(self.directory.path())
            .await
            .expect("it was started before");
    }

    async fn connection(&self) -> redis::aio::MultiplexedConnection {
        let client = redis::Client::open(self.url()).expect("a client");
        client
            .get_multiplexed_async_connection()
            .await
            .expect("connected")
    }
}

/// Starts `redis-server` in a directory and waits until it is ready.
async fn spawn(directory: &Path) -> Option<Child> {
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
        .arg(directory.join("redis.sock"))
        .arg("--dir")
        .arg(directory)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let mut process = match started {
        Ok(process) => process,
        Err(error) => {
            let required = std::env::var_os("SVC_TEST_REDIS").is_some_and(|value| value == "1");
            assert!(
                !required,
                "SVC_TEST_REDIS=1, but redis-server cannot be started: {error}"
            );
            // Not captured by the harness, which hides the output of passing tests.
            let written = writeln!(std::io::stderr(), "NOT RUN: redis-server ({error})");
            written.expect("written");
            return None;
        }
    };
    let mut log = BufReader::new(process.stdout.take().expect("piped")).lines();
    while let Some(line) = log.next_line().await.expect("a log") {
        if line.to_lowercase().contains("ready to accept connections") {
            // Keep reading, or the server blocks when the pipe is full.
            tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
            return Some(process);
        }
    }
    panic!("redis-server exited before it was ready");
}

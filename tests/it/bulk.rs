//! `svc bulk` under SIGKILL at any point, against a server with faults: no email is sent twice,
//! and none is missing except those that are reported as unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use svc_reference_server::Server;
use svc_sdk::EmailClient;
use tokio::process::{Child, Command};

/// The seeded key of the server, whose organization has a verified domain.
pub(crate) const KEY: &str = "mk_test_sandbox";

/// Rows of a job.
const ROWS: usize = 1_500;

/// How long a test waits for one run of `svc`.
const TIME_LIMIT: Duration = Duration::from_secs(90);

/// How many jobs each test runs; each is killed three times. More in `.ci/databases`.
fn rounds() -> u64 {
    std::env::var("SVC_BULK_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(1)
}

#[tokio::test]
async fn a_killed_job_sends_nothing_twice_and_reports_what_is_unknown() {
    let mut unknown_in_all = 0;
    for round in 0..rounds() {
        let job = KilledJob::run(round, false).await;
        let received = job.receiver.received().await;
        let unknown = job.unknown().await;
        assert_eq!(
            twice(&received),
            BTreeSet::<&String>::new(),
            "round {round}"
        );
        let missing = job
            .addresses
            .iter()
            .filter(|each| !received.contains_key(*each));
        let missing: BTreeSet<_> = missing.cloned().collect();
        assert!(
            missing.is_subset(&unknown),
            "round {round}: {:?}",
            missing.difference(&unknown)
        );
        unknown_in_all += unknown.len();
    }
    // A connection that is cut after the request was processed makes its rows unknown.
    assert!(unknown_in_all > 0, "no fault had an effect");
}

#[tokio::test]
async fn with_idempotency_keys_a_killed_job_sends_each_email_once() {
    for round in 0..rounds() {
        let job = KilledJob::run(round, true).await;
        let received = job.receiver.received().await;
        assert_eq!(job.unknown().await, BTreeSet::new(), "round {round}");
        assert_eq!(
            twice(&received),
            BTreeSet::<&String>::new(),
            "round {round}"
        );
        let received: BTreeSet<_> = received.into_keys().collect();
        assert!(
            received == job.addresses,
            "round {round}: {} of {ROWS}",
            received.len()
        );
    }
}

/// A job that was killed again and again until it was complete.
struct KilledJob {
    receiver: Receiver,
    home: tempfile::TempDir,
    addresses: BTreeSet<String>,
}

impl KilledJob {
    async fn run(round: u64, with_keys: bool) -> Self {
        let receiver = Receiver::start().await;
        for fault in faults() {
            receiver.fault(&fault).await;
        }

        let home = tempfile::tempdir().expect("a directory");
        let addresses: BTreeSet<String> = (0..ROWS).map(|n| format!("p{n}@example.test")).collect();
        let rows: String = addresses.iter().map(|each| format!("{each}\n")).collect();
        std::fs::write(home.path().join("people.csv"), format!("email\n{rows}")).expect("written");
        let profile = if with_keys {
            "[profiles.default.dialect]\nidempotency = \"honored\"\n"
        } else {
            "[profiles.default]\n"
        };
        let config = home.path().join(".config/svc");
        std::fs::create_dir_all(&config).expect("created");
        std::fs::write(config.join("config.toml"), profile).expect("written");
        let job = Self {
            receiver,
            home,
            addresses,
        };

        let mut random = Random(round + 1);
        let send = [
            "bulk",
            "send",
            "people.csv",
            "--from",
            "hello@sandbox.test",
            "--subject",
            "Hi",
            "--text",
            "Hello",
            "--yes",
        ];
        let mut kills = 0;
        for _ in 0..60 {
            let id = job.id().await;
            let mut run = match &id {
                None => job.start(&send),
                Some(id) => job.start(&["bulk", "resume", id]),
            };
            // At least three times, at a random write of the ledger; then to its end.
            if kills < 3 && job.kill_at(&mut run, 10 + random.below(30)).await {
                kills += 1;
                continue;
            }
            let ended = tokio::time::timeout(TIME_LIMIT, run.wait()).await;
            ended.expect("svc ends within 90 s").expect("a status");
            let status = job
                .svc(&["bulk", "status", &job.id().await.expect("a job")])
                .await;
            let is_done = status["not_sent"] == 0 && (!with_keys || status["unknown"] == 0);
            if is_done {
                assert!(kills > 0, "no run was killed");
                return job;
            }
        }

        panic!("the job is not complete after 60 runs");
    }

    /// The id of the job, which the first run creates.
    async fn id(&self) -> Option<String> {
        let jobs = self.svc(&["bulk", "list"]).await;
        Some(jobs[0]["job"].as_str()?.to_owned())
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args)
            .stdout(Stdio::null())
            .spawn()
            .expect("svc starts")
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
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn svc(&self, args: &[&str]) -> Value {
        let output = self.command(args).output().await.expect("svc runs");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Kills the process when the ledger was written so many times. Returns false if the process
    /// ends before.
    async fn kill_at(&self, run: &mut Child, writes: usize) -> bool {
        let path = self.home.path().join("state/svc/bulk.db-wal");
        let state = || {
            let file = std::fs::metadata(&path).ok()?;
            Some((file.len(), file.modified().ok()?))
        };

        let mut last = state();
        let mut seen = 0;
        let start = std::time::Instant::now();
        while seen < writes {
            if run.try_wait().expect("a status").is_some() {
                return false;
            }
            assert!(start.elapsed() < TIME_LIMIT, "the ledger is not written");
            tokio::time::sleep(Duration::from_micros(200)).await;
            let now = state();
            seen += usize::from(now != last);
            last = now;
        }

        run.kill().await.expect("killed");
        true
    }

    /// The addresses that the report calls unknown.
    async fn unknown(&self) -> BTreeSet<String> {
        let id = self.id().await.expect("a job");
        let report = self.svc(&["bulk", "report", &id, "--json"]).await;
        let report = report.as_array().expect("a list");
        let unknown = report.iter().filter(|row| row["status"] == "unknown");
        unknown
            .map(|row| row["address"].as_str().expect("an address").to_owned())
            .collect()
    }
}

/// The sandbox, and what it has received.
#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) server: std::sync::Arc<Server>,
    client: EmailClient,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let server = Server::builder()
            .in_memory()
            .start()
            .await
            .expect("the server starts");
        let client = EmailClient::builder(server.base_url(), KEY)
            .build()
            .expect("a client");
        Self {
            server: server.into(),
            client,
        }
    }

    pub(crate) async fn fault(&self, fault: &Value) {
        self.client
            .raw("POST", "/_sandbox/faults")
            .json(fault)
            .await
            .expect("a fault");
    }

    /// How many messages the server delivered to each address.
    pub(crate) async fn received(&self) -> BTreeMap<String, usize> {
        self.server.until_idle().await;
        let mut received = BTreeMap::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/_sandbox/messages?limit=100{cursor}");
            let page = self.client.raw("GET", path).await.expect("a page");
            let page: Value = page.json().expect("JSON");
            for message in page["data"].as_array().expect("a list") {
                let to = message["recipient"].as_str().expect("an address");
                *received.entry(to.to_owned()).or_default() += 1;
            }
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return received,
            }
        }
    }
}

/// Each is triggered once, after some requests.
pub(crate) fn faults() -> Vec<Value> {
    let faults = [
        json!({"skip": 1, "status": 429, "headers": {"retry-after": "0"}}),
        json!({"skip": 2, "drop": "before"}),
        json!({"skip": 4, "drop": "after"}),
        json!({"skip": 6, "drop": "midway"}),
        json!({"skip": 8, "status": 500}),
        json!({"skip": 3, "latency": "30ms", "times": 5}),
    ];
    let with_operation = |mut fault: Value| {
        fault["operation"] = json!("emails.send_batch");
        fault
    };
    faults.into_iter().map(with_operation).collect()
}

pub(crate) fn twice(received: &BTreeMap<String, usize>) -> BTreeSet<&String> {
    received
        .iter()
        .filter(|(_, count)| **count > 1)
        .map(|(address, _)| address)
        .collect()
}

/// The same numbers in every run (an xorshift generator).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        for shift in [13, 7, 17] {
            self.0 ^= if shift == 7 {
                self.0 >> shift
            } else {
                self.0 << shift
            };
        }
        // The remainder fits.
        (self.0 % limit as u64) as usize
    }
}

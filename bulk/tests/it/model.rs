//! The ledger against a model: random histories of refusals, lost responses, time-outs, stops, kills,
//! pauses, resumes and several workers. A service in the test is the oracle, which shares no code
//! with the ledger: no address gets an email twice unless somebody has asked for it, none is lost, and
//! what is unknown is named.
//!
//! `SVC_BULK_HISTORIES` is the number of histories in SQLite; PostgreSQL has a fifth of them.
//! `SVC_BULK_SEED` repeats those of the seed that a test prints.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use svc_bulk::{BulkSend, ErrorKind, Ledger, NewRow, NewSend, RowStatus, SendState, Totals};
use svc_sdk::EmailClient;
use svc_sdk::email::Email;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::databases::{Databases, Postgres, Sqlite};
use crate::mock_server::{read_request, response, response_with_headers};

/// The deadline of an attempt.
const ATTEMPT: Duration = Duration::from_millis(80);

/// The same where the service responds in time, however busy the machine is.
const LAST_ATTEMPT: Duration = Duration::from_secs(20);

/// Histories that are played at the same time.
const LANES: u64 = 8;

/// What the service does with a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Accept,
    /// Refuses the row at this position for its recipient.
    RefuseRow(usize),
    /// Refuses every row because the sender's domain is not verified.
    RefuseDomain,
    /// Refuses every row for a cause that it does not explain.
    RefuseOddly,
    /// Refuses the request as a whole.
    RefuseBatch,
    /// Leaves the row at this position out of its response.
    Omit(usize),
    /// Processes it, and closes the connection.
    LoseResponse,
    /// Closes the connection.
    LoseRequest,
    /// Processes it, and responds after the deadline.
    Hang,
    /// Fails.
    Fail,
    /// Asks to come back.
    Limit,
    /// Refuses the key.
    Forbid,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => Just(Act::Accept),
        3 => (0_usize..4).prop_map(Act::RefuseRow),
        4 => Just(Act::RefuseDomain),
        1 => Just(Act::RefuseOddly),
        1 => Just(Act::RefuseBatch),
        1 => (0_usize..4).prop_map(Act::Omit),
        2 => Just(Act::LoseResponse),
        2 => Just(Act::LoseRequest),
        1 => Just(Act::Hang),
        1 => Just(Act::Fail),
        1 => Just(Act::Limit),
        1 => Just(Act::Forbid),
    ]
}

/// How a worker ends.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Done,
    /// After so many requests of the service.
    Stopped(usize),
    Aborted(usize),
    /// Its future is dropped, as a crash does.
    Killed(usize),
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        3 => Just(Ending::Done),
        1 => (1_usize..6).prop_map(Ending::Stopped),
        1 => (1_usize..6).prop_map(Ending::Aborted),
        2 => (1_usize..6).prop_map(Ending::Killed),
    ]
}

/// Some workers at the same time, and what a person does before them and meanwhile.
#[derive(Clone, Debug)]
struct Step {
    workers: Vec<Ending>,
    resends_unknown: bool,
    resends_refused: bool,
    /// Paused after so many requests, and resumed soon.
    pauses: Option<usize>,
}

fn step() -> impl Strategy<Value = Step> {
    let workers = prop::collection::vec(ending(), 1..4);
    let pauses = prop::option::weighted(0.3, 1_usize..5);
    (
        workers,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
        pauses,
    )
        .prop_map(|(workers, resends_unknown, resends_refused, pauses)| Step {
            workers,
            resends_unknown,
            resends_refused,
            pauses,
        })
}

#[derive(Clone, Debug)]
struct History {
    rows: u64,
    request_size: usize,
    concurrency: usize,
    has_keys: bool,
    acts: Vec<Act>,
    steps: Vec<Step>,
}

fn history() -> impl Strategy<Value = History> {
    (
        1_u64..40,
        1_usize..9,
        1_usize..4,
        any::<bool>(),
        prop::collection::vec(act(), 0..24),
        prop::collection::vec(step(), 1..4),
    )
        .prop_map(
            |(rows, request_size, concurrency, has_keys, acts, steps)| History {
                rows,
                request_size,
                concurrency,
                has_keys,
                acts,
                steps,
            },
        )
}

/// The service.
#[derive(Clone)]
pub(crate) struct Oracle {
    pub(crate) url: String,
    pub(crate) seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
pub(crate) struct Seen {
    /// The next one last.
    pub(crate) acts: Vec<Act>,
    /// Whether it does nothing more but accept.
    is_well: bool,
    /// How many requests there were.
    requests: watch::Sender<usize>,
    /// How many emails each address has got.
    pub(crate) emails: HashMap<String, usize>,
    /// The response to the request with each key.
    keys: HashMap<String, String>,
}

impl Oracle {
    pub(crate) async fn start(mut acts: Vec<Act>) -> Self {
        acts.reverse();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Seen {
            acts,
            ..Seen::default()
        };
        let oracle = Self {
            url,
            seen: Arc::new(Mutex::new(seen)),
        };
        let accepting = oracle.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let oracle = accepting.clone();
                tokio::spawn(async move {
                    let mut buffer = Vec::new();
                    while let Some(request) = read_request(&mut stream, &mut buffer).await {
                        let key = request.header("idempotency-key").map(str::to_owned);
                        let (act, response) = oracle.process(&request.body, key);
                        if matches!(act, Act::Hang) {
                            sleep(ATTEMPT * 2).await;
                        }
                        let is_lost = matches!(act, Act::LoseResponse | Act::LoseRequest);
                        if is_lost || stream.write_all(response.as_bytes()).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        oracle
    }

    fn process(&self, body: &str, key: Option<String>) -> (Act, String) {
        let mut seen = self.seen.lock().unwrap();
        seen.requests.send_modify(|count| *count += 1);
        let act = seen.acts.pop().unwrap_or(Act::Accept);
        let is_processed = !matches!(
            act,
            Act::RefuseBatch | Act::LoseRequest | Act::Fail | Act::Limit | Act::Forbid
        );
        let earlier = key.as_ref().and_then(|key| seen.keys.get(key)).cloned();
        if let Some(earlier) = earlier.filter(|_| is_processed) {
            return (act, earlier);
        }

        let emails: Vec<Value> = serde_json::from_str(body).unwrap();
        let mut results = Vec::new();
        for (index, email) in emails.iter().enumerate() {
            let refusal = |code: &str, field: &str| {
                let problem = json!([{"field": field, "message": "refused"}]);
                json!({"index": index, "error": {"code": code, "message": "no", "fields": problem}})
            };
            let result = match act {
                Act::RefuseRow(at) if at == index => refusal("recipient_rejected", "to"),
                Act::RefuseDomain => refusal("domain_not_verified", "from"),
                Act::RefuseOddly => refusal("odd", "x"),
                _ => {
                    let id = format!("eml_{}", email["to"][0].as_str().unwrap());
                    json!({"index": index, "id": id})
                }
            };
            if is_processed && result.get("id").is_some() {
                let to = email["to"][0].as_str().unwrap().to_owned();
                *seen.emails.entry(to).or_default() += 1;
            }
            if !matches!(act, Act::Omit(at) if at == index) {
                results.push(result);
            }
        }

        let error = |status, code: &str| {
            let error = json!({"error": {"code": code, "message": "no"}});
            response(status, &error.to_string())
        };

        let response = match act {
            Act::RefuseBatch => error(422, "invalid"),
            Act::Fail => error(500, "internal"),
            Act::Forbid => error(403, "forbidden"),
            Act::Limit => response_with_headers(429, "Retry-After: 0\r\n", "{}"),
            _ => response(200, &json!({"results": results}).to_string()),
        };
        if is_processed {
            seen.keys.extend(key.map(|key| (key, response.clone())));
        }
        (act, response)
    }

    /// Waits until the service has seen so many more requests, or for a moment.
    pub(crate) async fn after(&self, more: usize) {
        // There may be fewer.
        let _ = timeout(Duration::from_millis(100), self.after_all(more)).await;
    }

    /// Waits until the service has seen so many more requests.
    pub(crate) async fn after_all(&self, more: usize) {
        let mut requests = self.seen.lock().unwrap().requests.subscribe();
        let most = *requests.borrow() + more;
        requests.wait_for(|count| *count >= most).await.unwrap();
    }
}

/// A history that is played.
struct Play {
    history: History,
    oracle: Oracle,
    client: EmailClient,
    id: String,
    /// The addresses that somebody has asked to send to again, and how often.
    asked: HashMap<String, usize>,
}

impl Play {
    fn sender(&self) -> BulkSend {
        let is_last = self.oracle.seen.lock().unwrap().is_well;
        let life = self.history.has_keys.then_some(Duration::from_secs(3600));
        BulkSend::new(&self.client)
            .request_size(self.history.request_size)
            .concurrency(self.history.concurrency)
            .timeout(if is_last { LAST_ATTEMPT } else { ATTEMPT })
            .retries(1)
            .idempotency_key_life(life)
    }

    async fn work(&self, ledger: &Ledger, ending: Ending) {
        let render = |to: &String| {
            Ok::<_, String>(Email::new("news@shop.test", to.as_str(), "News").text("Hello"))
        };
        let (end, ended) = oneshot::channel::<()>();
        let ended = async { drop(ended.await) };
        let (sender, after) = match ending {
            Ending::Done => (self.sender(), None),
            Ending::Stopped(after) => (self.sender().stop_when(ended), Some(after)),
            Ending::Aborted(after) => (self.sender().abort_when(ended), Some(after)),
            Ending::Killed(after) => (self.sender(), Some(after)),
        };
        let running = sender.run(ledger, &self.id, render);
        let Some(after) = after else {
            check(running.await);
            return;
        };

        let mut running = std::pin::pin!(running);
        tokio::select! {
            result = &mut running => return check(result),
            () = self.oracle.after(after) => {}
        }
        if !matches!(ending, Ending::Killed(_)) {
            let _ = end.send(());
            check(running.await);
        }
    }

    async fn step(&mut self, ledger: &Ledger, step: &Step) {
        if step.resends_unknown {
            for row in ledger
                .rows(&self.id, 0, &[RowStatus::Unknown])
                .await
                .unwrap()
            {
                *self.asked.entry(row.address).or_default() += 1;
            }
        }

        let asked = [
            (step.resends_refused, RowStatus::Refused),
            (step.resends_unknown, RowStatus::Unknown),
        ];
        for (_, status) in asked.iter().filter(|(is_asked, _)| *is_asked) {
            ledger.reopen(&self.id, &[*status]).await.unwrap();
        }

        ledger
            .set_state(&self.id, SendState::Running)
            .await
            .unwrap();

        let pausing = async {
            let Some(after) = step.pauses else { return };
            self.oracle.after(after).await;
            ledger.set_state(&self.id, SendState::Paused).await.unwrap();
            sleep(Duration::from_millis(20)).await;
            ledger
                .set_state(&self.id, SendState::Running)
                .await
                .unwrap();
        };
        let workers = step.workers.iter().map(|ending| self.work(ledger, *ending));
        let working = futures_util::future::join_all(workers);
        futures_util::future::join(working, pausing).await;
    }

    /// Sends what is left to a service that accepts everything, and compares.
    async fn end(mut self, ledger: &Ledger) {
        {
            let mut seen = self.oracle.seen.lock().unwrap();
            seen.acts.clear();
            seen.is_well = true;
        }
        let last = Step {
            workers: vec![Ending::Done],
            resends_unknown: false,
            resends_refused: false,
            pauses: None,
        };
        // A repeated request gets its first response, which may pause the send again.
        let mut resumes = 0;
        let record = loop {
            self.step(ledger, &last).await;
            let record = ledger.send(&self.id).await.unwrap();
            if record.state == SendState::Running {
                break record;
            }
            resumes += 1;
            assert!(resumes < 40, "it is paused again and again: {record:?}");
        };
        let Totals {
            in_flight,
            not_sent,
            ..
        } = record.totals;
        assert_eq!(
            (in_flight, not_sent),
            (0, 0),
            "something is left: {record:?}"
        );
        assert_eq!(record.totals.total(), self.history.rows);

        let rows = ledger.rows(&self.id, 0, &[]).await.unwrap();
        assert_eq!(rows.len() as u64, self.history.rows);

        let addresses = rows.iter().map(|row| &row.address).collect::<HashSet<_>>();
        assert_eq!(addresses.len(), rows.len());

        let seen = self.oracle.seen.lock().unwrap();
        for row in rows {
            let got = seen.emails.get(&row.address).copied().unwrap_or_default();
            let asked = self.asked.get(&row.address).copied().unwrap_or_default();
            let place = format!("{row:?}, {got} emails, {asked} asked for");
            assert!(got <= 1 + asked, "twice: {place}");
            match row.status {
                RowStatus::Accepted => assert!(got >= 1, "lost: {place}"),
                RowStatus::Refused => assert!(got == 0 || row.perhaps_twice, "wrong: {place}"),
                RowStatus::Unknown => {}
                _ => panic!("left: {place}"),
            }
        }
    }
}

/// A send may stop because of the service, but the ledger works.
fn check(result: Result<Totals, svc_bulk::Error>) {
    if let Err(error) = result {
        assert!(!matches!(error.kind, ErrorKind::Ledger(_)), "{error:?}");
    }
}

async fn play(history: History, databases: &impl Databases) {
    let oracle = Oracle::start(history.acts.clone()).await;
    let ledger = databases.ledger().await.lease(databases.lease());
    let new = NewSend::new("news");
    let rows = (1..=history.rows).map(|number| {
        let address = format!("p{number}@x.test");
        NewRow::new(number, &address, &address).unwrap()
    });
    ledger.create(&new, rows).await.unwrap();
    let steps = history.steps.clone();
    let client = EmailClient::builder(&oracle.url, "mk_test_0123456789").build();
    let mut play = Play {
        history,
        client: client.unwrap(),
        oracle,
        id: new.id,
        asked: HashMap::new(),
    };
    for step in &steps {
        play.step(&ledger, step).await;
    }

    play.end(&ledger).await;
}

/// Plays a share of the random histories, several at a time, because they mostly wait.
fn histories(databases: &(impl Databases + Sync), share: u64) {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let cases = number("SVC_BULK_HISTORIES").unwrap_or(30) / share;
    let seed = number("SVC_BULK_SEED").unwrap_or_else(|| fastrand::u64(..));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let runtime = &runtime;
            let cases = cases.div_ceil(LANES);
            scope.spawn(move || {
                let mut bytes = [0; 32];
                bytes[..8].copy_from_slice(&seed.to_le_bytes());
                bytes[8..16].copy_from_slice(&lane.to_le_bytes());
                let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
                let played = histories_of_lane(databases, runtime, cases, rng);
                played.unwrap_or_else(|error| panic!("SVC_BULK_SEED={seed}: {error}"));
            });
        }
    });
}

fn histories_of_lane(
    databases: &impl Databases,
    runtime: &Runtime,
    cases: u64,
    rng: TestRng,
) -> Result<(), String> {
    let config = ProptestConfig {
        cases: u32::try_from(cases).unwrap(),
        max_shrink_iters: 20,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let played = TestRunner::new_with_rng(config, rng).run(&history(), |history| {
        let playing = std::panic::AssertUnwindSafe(|| {
            let limit = Duration::from_secs(60);
            let playing = async { timeout(limit, play(history, databases)).await };
            runtime.block_on(playing).expect("it ends");
        });
        std::panic::catch_unwind(playing).map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|it| (*it).to_owned()));
            TestCaseError::fail(text.unwrap_or_default())
        })
    });
    played.map_err(|error| error.to_string())
}

#[test]
fn no_history_in_sqlite_sends_twice_or_loses_a_row() {
    histories(&Sqlite::in_memory(), 1);
}

#[test]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
fn no_history_in_postgres_sends_twice_or_loses_a_row() {
    let postgres = Postgres::start().expect("SVC_TEST_POSTGRES=1");
    histories(&postgres, 5);
}

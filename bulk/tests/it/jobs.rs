//! Bulk sending: whatever ends a job, no email is sent twice and none is left out. One file, because
//! all tests use the same fixtures.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream;
use serde_json::{Value, json};
use svc_bulk::{
    Error, ErrorKind, Job, JobInfo, Journal, JournalState, RequestReport, RowOutcome, RowRefusal,
    SendState, Totals,
};
use svc_sdk::email::Email;
use svc_sdk::{EmailClient, EmailClientBuilder, RecipientGuard};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::clock::{Clock, wait_until};
use crate::mock_server::{ReceivedRequest, read_request, response, response_with_headers};

/// What the server does with a batch.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Act {
    /// Refuses emails to addresses that start with `bad`, and accepts the others.
    Accept,
    /// Responds with 503 after a while.
    Late,
    /// Responds with this status.
    Status(u16),
    /// Responds with 422 if a number is in one of the ranges, and accepts the others.
    Reject(&'static [std::ops::Range<u64>]),
    /// Responds with 429 and `Retry-After`.
    Limit(u32),
    /// Never responds.
    Hang,
    /// Closes the connection.
    Close,
    /// Omits the last result.
    OmitLast,
    /// Refuses each email with this code.
    Refuse(&'static str),
}

/// The sender's domain is not verified.
const REFUSE_SENDER: Act = Act::Refuse("domain_not_verified");

/// A server that answers batches as the acts say, and then accepts them.
pub(crate) struct BatchServer {
    url: String,
    received: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl BatchServer {
    pub(crate) async fn start(acts: &[Act]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::<Mutex<Vec<ReceivedRequest>>>::default();
        let (log, acts) = (Arc::clone(&received), acts.to_vec());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (log, acts) = (Arc::clone(&log), acts.clone());
                tokio::spawn(async move {
                    let mut buffer = Vec::new();
                    while let Some(request) = read_request(&mut stream, &mut buffer).await {
                        let body = request.body.clone();
                        let number = {
                            let mut log = log.lock().unwrap();
                            log.push(request);
                            log.len() - 1
                        };
                        let response = match acts.get(number).copied().unwrap_or(Act::Accept) {
                            Act::Hang => std::future::pending().await,
                            Act::Close => return,
                            Act::Late => {
                                tokio::time::sleep(Duration::from_millis(50)).await;
                                response(503, "{}")
                            }
                            Act::Status(status) => response(status, r#"{"error":{"code":"x"}}"#),
                            Act::Reject(bad) => {
                                let is_bad = |n: &u64| bad.iter().any(|range| range.contains(n));
                                match numbers(&body).iter().any(is_bad) {
                                    true => response(
                                        422,
                                        r#"{"error":{"code":"bad_row","message":"no"}}"#,
                                    ),
                                    false => response(200, &results(&body, 0)),
                                }
                            }
                            Act::Limit(seconds) => response_with_headers(
                                429,
                                &format!("Retry-After: {seconds}\r\n"),
                                "{}",
                            ),
                            Act::Accept => response(200, &results(&body, 0)),
                            Act::OmitLast => response(200, &results(&body, 1)),
                            Act::Refuse(code) => response(200, &refusals(&body, code)),
                        };
                        if stream.write_all(response.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { url, received }
    }

    fn builder(&self) -> EmailClientBuilder {
        EmailClient::builder(&self.url, "k").no_proxy()
    }

    pub(crate) fn client(&self) -> EmailClient {
        self.builder().build().unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.received.lock().unwrap().clone()
    }

    /// The numbers in the addresses of each request.
    fn sent(&self) -> Vec<Vec<u64>> {
        self.requests()
            .iter()
            .map(|request| numbers(&request.body))
            .collect()
    }
}

fn numbers(body: &str) -> Vec<u64> {
    let emails: Vec<Value> = serde_json::from_str(body).unwrap();
    let number = |email: &Value| {
        let to = email["to"][0].as_str().unwrap();
        to.trim_start_matches("bad")
            .split('@')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    emails.iter().map(number).collect()
}

fn refusals(body: &str, code: &str) -> String {
    let emails: Vec<Value> = serde_json::from_str(body).unwrap();
    let error = json!({"code": code, "message": "shop.test is not verified"});
    let result = |index| json!({"index": index, "error": error});
    json!({"results": (0..emails.len()).map(result).collect::<Vec<_>>()}).to_string()
}

fn results(body: &str, omitted: usize) -> String {
    let emails: Vec<Value> = serde_json::from_str(body).unwrap();
    let count = emails.len() - omitted;
    let result = |(index, email): (usize, &Value)| match email["to"][0].as_str().unwrap() {
        to if to.starts_with("bad") => {
            json!({"index": index, "error": {"code": "refused_here", "message": "no"}})
        }
        to => json!({"index": index, "id": format!("eml_{to}")}),
    };
    json!({"results": emails.iter().enumerate().take(count).map(result).collect::<Vec<_>>()})
        .to_string()
}

/// A journal in a folder of its own.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("job.ndjson")
    }

    fn journal(&self) -> Journal {
        Journal::open(self.path(), &JobInfo::new("list")).unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path()).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

pub(crate) fn address(number: &u64) -> Result<Email, String> {
    match number {
        13 => Err("no name".to_owned()),
        // Longer than the service allows.
        14 => Ok(Email::new("a@b.test", "14@c.test", "s".repeat(999))),
        7 => Ok(Email::new("a@b.test", "bad7@c.test", "s")),
        _ => Ok(Email::new("a@b.test", format!("{number}@c.test"), "s")),
    }
}

async fn run(job: Job, folder: &Folder, rows: std::ops::Range<u64>) -> Result<Totals, Error> {
    let rows = stream::iter(rows.map(|number| Ok::<_, io::Error>((number, number))));
    let mut journal = folder.journal();
    sendable(job.run(rows, address, &mut journal)).await
}

/// Applications run jobs in tasks.
fn sendable<F: Future + Send>(running: F) -> F {
    running
}

fn totals(accepted: u64, refused: u64, invalid: u64, unknown: u64) -> [u64; 4] {
    [accepted, refused, invalid, unknown]
}

fn counts(totals: Totals) -> [u64; 4] {
    [
        totals.accepted,
        totals.refused,
        totals.invalid,
        totals.unknown,
    ]
}

#[tokio::test]
async fn each_row_has_an_outcome_and_a_second_run_sends_nothing() {
    let server = BatchServer::start(&[]).await;
    let folder = Folder::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let job = Job::new(&server.client())
        .request_size(10)
        .on_request(move |chunk| log.lock().unwrap().extend(chunk.outcomes.clone()));
    let done = run(job, &folder, 0..25).await.unwrap();
    assert_eq!(counts(done), totals(22, 1, 2, 0));
    let mut sent = server.sent().concat();
    sent.sort_unstable();
    assert_eq!(
        sent,
        (0..25)
            .filter(|n| ![13, 14].contains(n))
            .collect::<Vec<_>>()
    );
    assert_eq!(seen.lock().unwrap().len(), 23);

    let again = run(Job::new(&server.client()), &folder, 0..25)
        .await
        .unwrap();
    assert_eq!(again, done);
    assert_eq!(server.requests().len(), 3);
    // A row that was added later is sent.
    let more = run(Job::new(&server.client()), &folder, 0..26)
        .await
        .unwrap();
    assert_eq!(more.accepted, 23);

    let lines = folder.lines();
    assert_eq!(lines[0]["source"], "list");
    let entry = |kind: &str, field: &str, number: u64| {
        let found = lines
            .iter()
            .map(|line| &line[kind])
            .find(|it| it[field] == number);
        found.unwrap().clone()
    };
    let intent = entry("intent", "request", 0);
    assert_eq!(intent["rows"], json!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
    let outcome = entry("outcome", "request", 0);
    assert_eq!(outcome["results"][0], "eml_0@c.test");
    assert_eq!(
        outcome["results"][7],
        json!({"refused": "refused_here", "message": "no"})
    );
    let invalid = entry("invalid", "row", 13);
    assert_eq!(invalid["message"], "no name");
}

#[tokio::test]
async fn rows_in_flight_when_a_job_is_dropped_are_unknown_and_kept_back() {
    let server = BatchServer::start(&[Act::Accept, Act::Hang]).await;
    let folder = Folder::new();
    {
        let job = Job::new(&server.client()).request_size(5).concurrency(1);
        let running = run(job, &folder, 20..35);
        let hangs = wait_until("the second request", || server.requests().len() == 2);
        tokio::select! {
            _ = running => panic!("the job ended"),
            () = hangs => {}
        }
    }
    let totals_now = run(Job::new(&server.client()), &folder, 20..35)
        .await
        .unwrap();
    assert_eq!(counts(totals_now), totals(10, 0, 0, 5));
    assert_eq!(server.sent()[2], [30, 31, 32, 33, 34]);
    assert_eq!(folder.journal().reopen(true, false).await.unwrap(), 0);
    assert_eq!(folder.journal().reopen(false, true).await.unwrap(), 5);
    let job = Job::new(&server.client());
    assert_eq!(
        counts(run(job, &folder, 20..35).await.unwrap()),
        totals(15, 0, 0, 0)
    );
    assert_eq!(server.sent()[3], [25, 26, 27, 28, 29]);
}

#[tokio::test]
async fn a_request_is_repeated_with_its_key_while_the_key_lives() {
    let server = BatchServer::start(&[Act::Hang, Act::Status(409)]).await;
    let folder = Folder::new();
    let client = server.client();
    let day = Duration::from_secs(24 * 60 * 60);
    let job = || Job::new(&client).idempotency_key_life(day);
    {
        let running = run(job().request_size(5), &folder, 20..25);
        let hangs = wait_until("the request", || server.requests().len() == 1);
        tokio::select! {
            _ = running => panic!("the job ended"),
            () = hangs => {}
        }
    }
    // A key that the service has forgotten is not used.
    let forgotten = job().idempotency_key_life(Duration::ZERO);
    assert_eq!(run(forgotten, &folder, 20..25).await.unwrap().unknown, 5);
    assert_eq!(server.requests().len(), 1);
    // A refusal of the repetition says nothing about the first request. Other rows are sent.
    let now = run(job(), &folder, 20..30).await.unwrap();
    assert_eq!(counts(now), totals(5, 0, 0, 5));
    assert_eq!(
        counts(run(job(), &folder, 20..30).await.unwrap()),
        totals(10, 0, 0, 0)
    );
    let requests = server.requests();
    let same = requests
        .iter()
        .filter(|request| request.body == requests[0].body);
    let keys = same.map(|request| request.header("idempotency-key").unwrap());
    let keys = keys.collect::<Vec<_>>();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

/// The service would take the repetition for a new request.
#[tokio::test]
async fn a_request_that_waits_for_longer_than_its_key_lives_is_not_repeated() {
    let server = BatchServer::start(&[Act::Status(503)]).await;
    let folder = Folder::new();
    let life = Duration::from_millis(20);
    let (received, first) = (Arc::clone(&server.received), Mutex::new(None));
    // Paused after the first request until its key is forgotten.
    let state = move || {
        if received.lock().unwrap().len() != 1 {
            return SendState::Running;
        }
        let since = *first
            .lock()
            .unwrap()
            .get_or_insert_with(std::time::Instant::now);
        if since.elapsed() > life {
            SendState::Running
        } else {
            SendState::Paused
        }
    };
    let job = Job::new(&server.client()).request_size(5).concurrency(1);
    let job = job.idempotency_key_life(life).state(state);
    assert_eq!(
        counts(run(job, &folder, 20..30).await.unwrap()),
        totals(5, 0, 0, 5)
    );
    assert_eq!(server.sent(), [[20, 21, 22, 23, 24], [25, 26, 27, 28, 29]]);
}

#[tokio::test]
async fn a_refused_request_ends_the_job_and_its_rows_are_sent_later() {
    for status in [401, 403, 404] {
        let server = BatchServer::start(&[Act::Status(status)]).await;
        let folder = Folder::new();
        let job = Job::new(&server.client()).concurrency(1).request_size(5);
        let error = run(job, &folder, 20..40).await.unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Service(_)), "{error:?}");
        assert_eq!(
            (counts(error.totals), server.requests().len()),
            (totals(0, 0, 0, 0), 1)
        );
        let done = run(Job::new(&server.client()), &folder, 20..40)
            .await
            .unwrap();
        assert_eq!(counts(done), totals(20, 0, 0, 0));
    }
}

#[tokio::test]
async fn only_the_row_that_makes_a_request_invalid_is_refused() {
    let bad = &[23..24, 31..33];
    let server = BatchServer::start(&[Act::Reject(bad); 100]).await;
    let folder = Folder::new();
    let done = run(Job::new(&server.client()).request_size(8), &folder, 20..60)
        .await
        .unwrap();
    assert_eq!(counts(done), totals(37, 3, 0, 0));
    let accepted = server.requests().len();
    let again = run(Job::new(&server.client()), &folder, 20..60)
        .await
        .unwrap();
    assert_eq!((again, server.requests().len()), (done, accepted));
    let lines = folder.lines();
    let refused = lines
        .iter()
        .filter(|line| line["outcome"]["results"][0]["refused"] == "bad_row");
    assert_eq!(refused.count(), 3);
    // The only row of a job.
    let folder = Folder::new();
    let done = run(Job::new(&server.client()), &folder, 23..24)
        .await
        .unwrap();
    assert_eq!(counts(done), totals(0, 1, 0, 0));
}

#[tokio::test]
async fn a_service_that_refuses_every_request_ends_the_job_and_no_row_is_refused() {
    let server = BatchServer::start(&[Act::Status(422); 100]).await;
    let folder = Folder::new();
    let error = run(Job::new(&server.client()), &folder, 20..90)
        .await
        .unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Refused(_)), "{error:?}");
    assert_eq!(counts(error.totals), totals(0, 0, 0, 0));
    assert!(server.requests().len() < 60, "{}", server.requests().len());
    let server = BatchServer::start(&[]).await;
    let done = run(Job::new(&server.client()), &folder, 20..90)
        .await
        .unwrap();
    assert_eq!(counts(done), totals(70, 0, 0, 0));
}

#[tokio::test]
async fn a_long_retry_after_pauses_the_job_up_to_its_limit() {
    let clock = Clock::pause();
    let server = BatchServer::start(&[Act::Limit(600), Act::Accept, Act::Limit(1000)]).await;
    let folder = Folder::new();
    let pauses = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&pauses);
    let observe = move |chunk: &RequestReport| log.lock().unwrap().extend(chunk.pause);
    let job = Job::new(&server.client())
        .request_size(5)
        .concurrency(1)
        .on_request(observe);
    let running = tokio::spawn(async move { (run(job, &folder, 20..30).await, folder) });
    wait_until("the pause", || pauses.lock().unwrap().len() == 1).await;
    assert_eq!(pauses.lock().unwrap()[0].as_secs(), 600);
    clock.advance(Duration::from_secs(598)).await;
    assert_eq!(server.requests().len(), 1);
    clock.advance(Duration::from_secs(3)).await;
    let (result, folder) = running.await.unwrap();
    // 1000 s are more than 15 minutes.
    assert_eq!(counts(result.unwrap_err().totals), totals(5, 0, 0, 0));
    assert_eq!(
        server.sent(),
        [
            [20, 21, 22, 23, 24],
            [20, 21, 22, 23, 24],
            [25, 26, 27, 28, 29]
        ]
    );

    let server = BatchServer::start(&[Act::Limit(600)]).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (log, client) = (Arc::clone(&pauses), server.client());
    let observe = move |chunk: &RequestReport| log.lock().unwrap().extend(chunk.pause);
    let job = Job::new(&client)
        .on_request(observe)
        .stop_when(async { drop(stopped.await) });
    let running = tokio::spawn(async move { run(job, &folder, 20..30).await });
    wait_until("the second pause", || pauses.lock().unwrap().len() == 2).await;
    stop.send(()).unwrap();
    // The clock does not move.
    assert_eq!(counts(running.await.unwrap().unwrap()), totals(5, 0, 0, 0));
}

/// The client would wait for 30 s, or back off, and then try again.
#[tokio::test]
async fn a_stop_reaches_requests_between_two_attempts() {
    let _clock = Clock::pause();
    let (not_sent, unknown) = (totals(0, 0, 0, 0), totals(0, 0, 0, 5));
    for (act, is_honored, expected) in [
        (Act::Limit(30), false, not_sent),
        (Act::Status(503), true, unknown),
    ] {
        let server = BatchServer::start(&[act]).await;
        let day = is_honored.then(|| Duration::from_secs(24 * 60 * 60));
        let job = || Job::new(&server.client()).idempotency_key_life(day);
        let folder = Folder::new();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stoppable = job().stop_when(async { drop(stopped.await) });
        let running = tokio::spawn(async move { (run(stoppable, &folder, 20..25).await, folder) });
        wait_until("the request", || server.requests().len() == 1).await;
        stop.send(()).unwrap();
        wait_until("the end of the job", || running.is_finished()).await;
        let (result, folder) = running.await.unwrap();
        assert_eq!(counts(result.unwrap()), expected);
        assert_eq!(server.requests().len(), 1);
        let done = run(job(), &folder, 20..25).await.unwrap();
        assert_eq!(
            (counts(done), server.requests().len()),
            (totals(5, 0, 0, 0), 2)
        );
    }
}

#[tokio::test]
async fn a_paused_job_waits_and_a_cancelled_one_ends() {
    let server = BatchServer::start(&[]).await;
    let folder = Folder::new();
    let state = Arc::new(Mutex::new(SendState::Paused));
    let (of_job, asked) = (Arc::clone(&state), Arc::new(Mutex::new(0)));
    let count = Arc::clone(&asked);
    let job = Job::new(&server.client())
        .request_size(5)
        .concurrency(1)
        .state(move || {
            *count.lock().unwrap() += 1;
            *of_job.lock().unwrap()
        });
    let of_run = Arc::clone(&state);
    let job = job.on_request(move |_| *of_run.lock().unwrap() = SendState::Cancelled);
    let running = tokio::spawn(async move { (run(job, &folder, 20..40).await, folder) });
    wait_until("it waits", || *asked.lock().unwrap() > 2).await;
    assert_eq!(server.requests().len(), 0);
    *state.lock().unwrap() = SendState::Running;
    let (result, folder) = running.await.unwrap();
    assert_eq!(
        (counts(result.unwrap()), server.requests().len()),
        (totals(5, 0, 0, 0), 1)
    );
    let done = run(Job::new(&server.client()), &folder, 20..40)
        .await
        .unwrap();
    assert_eq!(counts(done), totals(20, 0, 0, 0));
}

#[tokio::test]
async fn the_guard_stops_a_job_at_a_row_that_it_refuses_and_at_its_limit() {
    let server = BatchServer::start(&[]).await;
    let folder = Folder::new();
    let client = |guard: RecipientGuard| server.builder().recipient_guard(guard).build().unwrap();
    let allowed = client(RecipientGuard::allow([
        "20@c.test",
        "21@c.test",
        "22@c.test",
    ]));
    let error = run(Job::new(&allowed).request_size(2), &folder, 20..24)
        .await
        .unwrap_err();
    let ErrorKind::Service(cause) = &error.kind else {
        panic!("{error:?}")
    };
    assert!(
        cause.to_string().contains("emails[1].to[0]: 23@c.test"),
        "{cause}"
    );
    assert_eq!(
        (counts(error.totals), server.sent()),
        (totals(2, 0, 0, 0), vec![vec![20, 21]])
    );
    // Requests that are no larger than the limit use it up.
    let limited = client(RecipientGuard::default().max_per_run(3));
    let error = run(
        Job::new(&limited).concurrency(1).request_size(3),
        &folder,
        20..40,
    )
    .await
    .unwrap_err();
    assert_eq!(counts(error.totals), totals(5, 0, 0, 0));
    assert_eq!(server.sent()[1], [22, 23, 24]);
}

/// The sender's domain is not verified any more: nothing is refused for good, and the job goes on
/// once it is.
#[tokio::test]
async fn a_job_stops_when_every_email_is_refused_for_a_reason_of_the_whole_job() {
    for (refusals, request_size) in [(1, 10), (5, 1), (3, 2)] {
        let mut acts = vec![Act::Accept];
        acts.extend(vec![REFUSE_SENDER; refusals]);
        let server = BatchServer::start(&acts).await;
        let folder = Folder::new();
        let job = || {
            Job::new(&server.client())
                .concurrency(1)
                .request_size(request_size)
        };
        let error = run(job(), &folder, 20..40).await.unwrap_err();
        let ErrorKind::Refused(RowRefusal { code, message, .. }) = &error.kind else {
            panic!("{error:?}")
        };
        assert_eq!(code.as_deref(), Some("domain_not_verified"));
        assert_eq!(message.as_deref(), Some("shop.test is not verified"));
        assert_eq!(counts(error.totals), totals(request_size as u64, 0, 0, 0));
        assert_eq!(server.requests().len(), 1 + refusals);
        assert_eq!(
            counts(run(job(), &folder, 20..40).await.unwrap()),
            totals(20, 0, 0, 0)
        );
    }
    // One that was cancelled meanwhile ends as cancelled.
    let server = BatchServer::start(&[REFUSE_SENDER]).await;
    let received = Arc::clone(&server.received);
    let job = Job::new(&server.client())
        .concurrency(1)
        .request_size(2)
        .state(move || match received.lock().unwrap().is_empty() {
            true => SendState::Running,
            false => SendState::Cancelled,
        });
    assert_eq!(
        counts(run(job, &Folder::new(), 20..40).await.unwrap()),
        totals(0, 2, 0, 0)
    );
    // A shorter one stops, too.
    let server = BatchServer::start(&[REFUSE_SENDER]).await;
    let folder = Folder::new();
    let error = run(Job::new(&server.client()), &folder, 20..22)
        .await
        .unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Refused(_)), "{error:?}");
    assert_eq!(counts(error.totals), totals(0, 0, 0, 0));
    // A few such rows, which may have a sender of their own, are refused.
    let server = BatchServer::start(&[REFUSE_SENDER, REFUSE_SENDER]).await;
    let folder = Folder::new();
    let job = Job::new(&server.client()).concurrency(1).request_size(2);
    assert_eq!(
        counts(run(job, &folder, 20..30).await.unwrap()),
        totals(6, 4, 0, 0)
    );
}

/// Rows that are in flight when the job stops are to be sent again, too.
#[tokio::test]
async fn refusals_that_concern_the_whole_job_stop_all_requests() {
    let server = BatchServer::start(&[REFUSE_SENDER; 4]).await;
    let folder = Folder::new();
    let job = Job::new(&server.client()).concurrency(4).request_size(10);
    let error = run(job, &folder, 20..520).await.unwrap_err();
    assert_eq!(counts(error.totals), totals(0, 0, 0, 0));
    assert!(server.requests().len() <= 4);
    let done = run(Job::new(&server.client()), &folder, 20..520)
        .await
        .unwrap();
    assert_eq!(counts(done), totals(500, 0, 0, 0));
    assert!(
        folder
            .lines()
            .iter()
            .any(|line| line["reopened"]["rows"].is_array())
    );
}

/// Otherwise every run would stop at them. Those for recipients stop no run.
#[tokio::test]
async fn many_refusals_for_another_cause_stop_the_job_once() {
    let server = BatchServer::start(&[Act::Accept, Act::Refuse("quota_reached")]).await;
    let folder = Folder::new();
    let job = || Job::new(&server.client()).concurrency(1).request_size(30);
    let error = run(job(), &folder, 20..110).await.unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Refused(_)), "{error:?}");
    assert_eq!(counts(error.totals), totals(30, 30, 0, 0));
    assert_eq!(
        counts(run(job(), &folder, 20..110).await.unwrap()),
        totals(60, 30, 0, 0)
    );

    let server = BatchServer::start(&[Act::Refuse("recipient_suppressed"); 2]).await;
    let folder = Folder::new();
    let job = Job::new(&server.client()).concurrency(1).request_size(30);
    assert_eq!(
        counts(run(job, &folder, 20..110).await.unwrap()),
        totals(30, 60, 0, 0)
    );
}

#[tokio::test]
async fn refused_rows_are_sent_again_on_request_only() {
    let server = BatchServer::start(&[Act::Refuse("recipient_suppressed")]).await;
    let folder = Folder::new();
    let job = || Job::new(&server.client()).concurrency(1).request_size(3);
    assert_eq!(
        counts(run(job(), &folder, 20..26).await.unwrap()),
        totals(3, 3, 0, 0)
    );
    assert_eq!(
        counts(run(job(), &folder, 20..26).await.unwrap()),
        totals(3, 3, 0, 0)
    );
    assert_eq!(server.requests().len(), 2);
    assert_eq!(folder.journal().reopen(false, true).await.unwrap(), 0);
    assert_eq!(folder.journal().reopen(true, false).await.unwrap(), 3);
    let again = run(job(), &folder, 20..26).await.unwrap();
    assert_eq!(counts(again), totals(6, 0, 0, 0));
    assert_eq!(server.sent()[2], [20, 21, 22]);
}

#[tokio::test]
async fn a_job_ends_after_several_unknown_requests_in_a_row() {
    let acts = [
        Act::Close,
        Act::Status(500),
        Act::Accept,
        Act::Close,
        Act::Close,
        Act::Status(502),
    ];
    let server = BatchServer::start(&acts).await;
    let folder = Folder::new();
    let job = Job::new(&server.client()).concurrency(1).request_size(5);
    let error = run(job, &folder, 20..70).await.unwrap_err();
    assert_eq!(counts(error.totals), totals(5, 0, 0, 25));
    assert_eq!(server.requests().len(), 6);
    let done = run(Job::new(&server.client()), &folder, 20..70)
        .await
        .unwrap();
    assert_eq!(counts(done), totals(25, 0, 0, 25));
}

#[tokio::test]
async fn an_incomplete_response_leaves_rows_unknown() {
    let server = BatchServer::start(&[Act::OmitLast]).await;
    let folder = Folder::new();
    let done = run(Job::new(&server.client()), &folder, 20..25)
        .await
        .unwrap();
    // The server numbers its results, so that only one is missing.
    assert_eq!(counts(done), totals(4, 0, 0, 1));
}

#[tokio::test]
async fn rows_that_fail_or_do_not_ascend_end_the_job() {
    let server = BatchServer::start(&[]).await;
    let failing: [[io::Result<u64>; 3]; 2] = [
        [Ok(1), Ok(2), Err(io::Error::other("gone"))],
        [Ok(1), Ok(2), Ok(2)],
    ];
    for rows in failing {
        let folder = Folder::new();
        let rows = rows.map(|row| row.map(|number| (number, number)));
        let job = Job::new(&server.client()).request_size(1);
        let error = job
            .run(stream::iter(rows), address, &mut folder.journal())
            .await
            .unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Rows(_)), "{error:?}");
        assert_eq!(error.totals.accepted, 2);
    }
}

#[tokio::test]
async fn a_rate_spaces_the_requests() {
    let clock = Clock::pause();
    let server = BatchServer::start(&[]).await;
    let folder = Folder::new();
    let job = Job::new(&server.client()).rate(10);
    let running = tokio::spawn(async move { run(job, &folder, 20..55).await.unwrap() });
    for requests in 1..=4 {
        wait_until("the next request", || server.requests().len() == requests).await;
        clock.advance(Duration::from_millis(990)).await;
        assert_eq!(server.requests().len(), requests);
        // Timers are precise to a millisecond.
        clock.advance(Duration::from_millis(12)).await;
    }
    assert_eq!(running.await.unwrap().accepted, 35);
    assert_eq!(server.sent()[3].len(), 5);

    let folder = Folder::new();
    let job = Job::new(&server.client()).rate(0.5);
    let running = tokio::spawn(async move { run(job, &folder, 20..22).await.unwrap() });
    wait_until("the first email", || server.requests().len() == 5).await;
    clock.advance(Duration::from_millis(1990)).await;
    assert_eq!(server.requests().len(), 5);
    clock.advance(Duration::from_millis(12)).await;
    assert_eq!(running.await.unwrap().accepted, 2);
}

#[tokio::test]
async fn a_torn_end_is_removed_and_other_damage_is_an_error() {
    let server = BatchServer::start(&[]).await;
    let folder = Folder::new();
    run(Job::new(&server.client()).request_size(10), &folder, 20..40)
        .await
        .unwrap();
    let text = std::fs::read_to_string(folder.path()).unwrap();
    // Every length of the last line: its rows are unknown, all others are accepted.
    let last = text[..text.len() - 1].rfind('\n').unwrap() + 1;
    for end in [last, last + 1, text.len() - 20, text.len() - 1] {
        std::fs::write(folder.path(), &text[..end]).unwrap();
        let done = run(Job::new(&server.client()), &folder, 20..40)
            .await
            .unwrap();
        assert_eq!(counts(done), totals(10, 0, 0, 10), "{end}");
        assert_eq!(
            std::fs::read_to_string(folder.path()).unwrap(),
            text[..last],
            "{end}"
        );
    }
    assert_eq!(server.requests().len(), 2);
    std::fs::write(
        folder.path(),
        text.replacen("\"outcome\":", "\"outcome:", 1),
    )
    .unwrap();
    let error = Journal::open(folder.path(), &JobInfo::new("list")).unwrap_err();
    assert!(
        error.to_string().contains("of the journal is damaged"),
        "{error}"
    );
}

#[tokio::test]
async fn a_journal_belongs_to_one_process_and_one_source() {
    let folder = Folder::new();
    let journal = folder.journal();
    assert!(Journal::is_open(folder.path()).unwrap());
    let error = Journal::open(folder.path(), &JobInfo::new("list")).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    // Anyone may read it.
    let (info, _) = Journal::read(folder.path(), JournalState::default()).unwrap();
    assert_eq!(info.source, "list");
    drop(journal);
    assert!(!Journal::is_open(folder.path()).unwrap());
    let error = Journal::open(folder.path(), &JobInfo::new("another list")).unwrap_err();
    assert!(error.to_string().contains("have changed"), "{error}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.path())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0);
    }
}

#[tokio::test]
async fn a_journal_takes_at_most_120_bytes_a_row() {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // Ids as long as those of the sandbox.
    let results = (0..100).map(|n| json!({"id": format!("eml_0198c5a7-7abc-7def-8123-{n:012}")}));
    let body = response(200, &Value::from_iter(results).to_string());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = Vec::new();
            while read_request(&mut stream, &mut buffer).await.is_some() {
                stream.write_all(body.as_bytes()).await.unwrap();
            }
        }
    });
    let client = EmailClient::builder(url, "k").no_proxy().build().unwrap();
    let rows = (1_000_000..1_001_000_u64).map(|n| Ok::<_, io::Error>((n, n)));
    let render = |n: &u64| {
        Ok::<_, io::Error>(Email::new(
            "a@b.test",
            format!("first.last{n}@mail.example.com"),
            "s",
        ))
    };
    let job = Job::new(&client).concurrency(1);
    let done = job
        .run(stream::iter(rows), render, &mut folder.journal())
        .await
        .unwrap();
    assert_eq!(done.accepted, 1_000);
    let size = std::fs::metadata(folder.path()).unwrap().len();
    assert!(size <= 120 * 1_000, "{size} bytes for 1000 rows");
    // Content and secrets stay out of `Debug`.
    let refused: RowOutcome =
        serde_json::from_str(r#"{"refused":"c","message":"content"}"#).unwrap();
    assert!(
        matches!(refused, RowOutcome::Refused(_)) && !format!("{refused:?}").contains("content")
    );
}

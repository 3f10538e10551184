//! Two processes receive over HTTP and handle deliveries, and are killed at random. Each
//! delivery is sent three times. None is lost, and each is handled exactly once.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, State};
use axum::http::StatusCode;
use axum::routing::post;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use webhook_inbox::{Database, Inbox};
use webhook_verify::{Delivery, Receiver, Secret, Service, Signature, Verifier};

use crate::databases::{PostgresBench, SqliteBench, pool};
use crate::support::{Behavior, Bench, SECRET, always_ok, body, delivery, eventually, quick, stop};

/// The database of a process that this test starts: the path of a file, or the settings of
/// PostgreSQL.
const DATABASE: &str = "SVC_TEST_INBOX";

/// How many times as long as usual these tests take: `just chaos`.
pub(crate) fn longer() -> usize {
    let times = std::env::var("SVC_CHAOS").ok();
    times.and_then(|times| times.parse().ok()).unwrap_or(1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_lose_nothing_in_sqlite() {
    let bench = SqliteBench::start().await.unwrap();
    survive_kills(&bench, &bench.path(), 150 * longer(), 5 * longer()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn killed_processes_lose_nothing_in_postgres() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    let deliveries = 10_000 * longer();
    let kills = 40 * longer();
    survive_kills(&bench, &bench.settings(), deliveries, kills).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_that_crashes_its_process_takes_no_other_along_in_sqlite() {
    let bench = SqliteBench::start().await.unwrap();
    survive_poison(&bench, &bench.path()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: SVC_TEST_POSTGRES=1 and --include-ignored"]
async fn a_delivery_that_crashes_its_process_takes_no_other_along_in_postgres() {
    let bench = PostgresBench::start().await.expect("SVC_TEST_POSTGRES=1");
    survive_poison(&bench, &bench.settings()).await;
}

/// A supervisor restarts the process whenever the poison has ended it.
async fn survive_poison<B: Bench>(bench: &B, database: &str) {
    let inbox = bench.inbox();
    for id in ["0", "1", POISON, "2", "3", "4", "5"] {
        inbox.accept(&delivery(id)).await.unwrap();
    }

    let is_settled = "SELECT count(*) FROM webhook_inbox WHERE status = 'pending'";
    let mut starts = 0;
    while bench.count(is_settled).await > 0 {
        starts += 1;
        assert!(starts < 20, "it is never given up");
        let mut child = command(database).spawn().unwrap();
        eventually("the process ends, or everything is handled", async || {
            let is_over = bench.count(is_settled).await == 0;
            (is_over || has_ended(child.id())).then_some(())
        })
        .await;
        let _ = child.kill();
        child.wait().unwrap();
    }

    assert!(starts > 1, "no process ended");
    assert_each_once(&bench.handled().await, 6);

    let letters = inbox.dead_letters(0, 9).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert!(letters[0].key.ends_with(POISON), "{letters:?}");

    let attempts = "SELECT max(attempts) FROM webhook_inbox WHERE status = 'done'";
    assert_eq!(
        bench.count(attempts).await,
        1,
        "attempts of the others count"
    );
}

/// The id of a delivery whose handler ends the process.
const POISON: &str = "poison";

fn has_ended(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status.is_empty() || status.contains(") Z ")
}

fn poisoned() -> Behavior {
    Arc::new(|job| {
        if job.delivery().id() == Some(POISON) {
            std::process::abort();
        }
        Ok(())
    })
}

async fn survive_kills<B: Bench>(bench: &B, database: &str, deliveries: usize, kills: usize) {
    let processes: Arc<[Mutex<Process>; 2]> =
        Arc::new([0, 1].map(|_| Mutex::new(Process::start(database))));
    let sent = Arc::new(AtomicUsize::new(0));
    let killed = Arc::new(AtomicUsize::new(0));
    let finished = Arc::new(AtomicBool::new(false));

    let killer = tokio::task::spawn_blocking({
        let (processes, database, killed) =
            (processes.clone(), database.to_owned(), killed.clone());
        let sent = sent.clone();
        let finished = finished.clone();
        move || {
            while !finished.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(random(50..300)));
                // Spread over the whole test.
                let due = kills * sent.load(Ordering::Relaxed) / (3 * deliveries);
                if killed.load(Ordering::Relaxed) <= due {
                    let process = &processes[killed.fetch_add(1, Ordering::Relaxed) % 2];
                    let mut process = process.lock().unwrap();
                    process.child.kill().unwrap();
                    *process = Process::start(&database);
                }
            }
        }
    });

    // Each delivery is sent to one process and to the other, at about the same time.
    let next = Arc::new(AtomicUsize::new(0));
    let senders = (0..8).map(|_| {
        let next = next.clone();
        let sent = sent.clone();
        let processes = processes.clone();
        let killed = killed.clone();
        tokio::spawn(async move {
            let mut sender = Sender::new(processes);
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= 3 * deliveries {
                    return;
                }
                // A fast machine waits for the kills.
                while killed.load(Ordering::Relaxed) < kills * (index + 1) / (3 * deliveries) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                sender
                    .send(index % 2, &body(&(index / 3).to_string()))
                    .await;
                sent.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }

    let mut handled = Vec::new();
    // Longer than one `eventually`, as long as there is progress.
    while handled.len() < deliveries {
        let before = handled.len();
        handled = eventually("deliveries are handled", async || {
            Some(bench.handled().await).filter(|handled| handled.len() > before)
        })
        .await;
    }

    finished.store(true, Ordering::Relaxed);
    killer.await.unwrap();
    assert!(killed.load(Ordering::Relaxed) >= kills, "{killed:?}");

    for process in &*processes {
        process.lock().unwrap().child.kill().unwrap();
    }

    // What a killed process had claimed last is not handled again.
    let inbox = bench.inbox();
    let worker = B::run(quick(&inbox), always_ok());
    tokio::time::sleep(2 * LEASE).await;
    stop(&inbox, worker).await;
    let handled = bench.handled().await;
    assert_each_once(&handled, deliveries);
    assert!(inbox.dead_letters(0, 1).await.unwrap().is_empty());
}

pub(crate) fn assert_each_once(handled: &[String], deliveries: usize) {
    let mut expected: Vec<_> = (0..deliveries)
        .map(|id| format!("email:email.bounced:id:{id}"))
        .collect();
    expected.sort();
    assert_eq!(handled.len(), expected.len());
    assert!(handled == expected, "each delivery is handled exactly once");
}

/// The lease of the processes: what was claimed when they were killed is soon due again.
pub(crate) const LEASE: Duration = Duration::from_millis(500);

fn random(range: std::ops::Range<u64>) -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    range.start + RandomState::new().hash_one(0) % (range.end - range.start)
}

/// A receiver in a process of its own.
pub(crate) struct Process {
    pub(crate) child: Child,
    address: SocketAddr,
}

impl Process {
    pub(crate) fn start(database: &str) -> Self {
        let mut child = command(database).spawn().unwrap();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let address = lines.map(Result::unwrap).find_map(|line| line.parse().ok());
        Self {
            address: address.expect("the receiver prints its address"),
            child,
        }
    }
}

fn command(database: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "crashes::receiver",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(DATABASE, database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends as the service does: until the response is 2xx.
pub(crate) struct Sender {
    processes: Arc<[Mutex<Process>; 2]>,
    connections: [Option<SendRequest<Full<bytes::Bytes>>>; 2],
    /// How many responses were not 2xx.
    pub(crate) refused: Arc<AtomicUsize>,
}

impl Sender {
    pub(crate) fn new(processes: Arc<[Mutex<Process>; 2]>) -> Self {
        Self {
            processes,
            connections: [None, None],
            refused: Arc::default(),
        }
    }

    pub(crate) async fn send(&mut self, to: usize, body: &str) {
        let secret = Secret::new(SECRET).unwrap();
        let signature = Signature::sign(Service::Email, &secret, body).to_string();
        loop {
            match self.attempt(to, body, &signature).await {
                Ok(true) => return,
                Ok(false) => drop(self.refused.fetch_add(1, Ordering::Relaxed)),
                Err(_) => {}
            }
            self.connections[to] = None;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn attempt(
        &mut self,
        to: usize,
        body: &str,
        signature: &str,
    ) -> Result<bool, Box<dyn std::error::Error>> {
        let connection = match &mut self.connections[to] {
            Some(connection) => connection,
            none => {
                let address = self.processes[to]
                    .try_lock()
                    .map_err(|_| "it restarts")?
                    .address;
                let stream = tokio::net::TcpStream::connect(address).await?;
                let (sender, connection) = handshake(TokioIo::new(stream)).await?;
                tokio::spawn(connection);
                none.insert(sender)
            }
        };
        connection.ready().await?;
        let request = hyper::Request::post("/hooks")
            .header("host", "localhost")
            .header("mail-signature", signature)
            .body(Full::from(body.to_owned()))?;
        let response = connection.send_request(request).await?;
        let accepted = response.status().is_success();
        response.into_body().collect().await?;
        Ok(accepted)
    }
}

/// The process that is killed. Does nothing unless a test starts it.
#[test]
#[ignore = "started and killed by the tests above"]
fn receiver() {
    let Ok(database) = std::env::var(DATABASE) else {
        return;
    };

    // It ends with the test that started it, even if that is killed.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        match database.strip_prefix("host=") {
            Some(_) => {
                let inbox = Inbox::new(pool(database.parse().unwrap(), 10));
                let _worker =
                    PostgresBench::run(quick(&inbox).lease(LEASE).max_attempts(3), poisoned());
                serve(inbox).await;
            }
            None => {
                let inbox = Inbox::sqlite(database).unwrap();
                let _worker =
                    SqliteBench::run(quick(&inbox).lease(LEASE).max_attempts(3), poisoned());
                serve(inbox).await;
            }
        }
    });
}

#[derive(Clone)]
struct App<D> {
    receiver: Receiver,
    inbox: Inbox<D>,
}

impl<D> FromRef<App<D>> for Receiver {
    fn from_ref(app: &App<D>) -> Self {
        app.receiver.clone()
    }
}

async fn serve<D: Database>(inbox: Inbox<D>) {
    let receiver = Receiver::new(Verifier::email(Secret::new(SECRET).unwrap()));
    let app = Router::new()
        .route("/hooks", post(receive::<D>))
        .with_state(App { receiver, inbox });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let printed = writeln!(std::io::stdout(), "\n{}", listener.local_addr().unwrap());
    printed.unwrap();
    axum::serve(listener, app).await.unwrap();
}

async fn receive<D: Database>(
    State(app): State<App<D>>,
    delivery: Delivery,
) -> Result<StatusCode, StatusCode> {
    let accepted = app.inbox.accept(&delivery).await;
    accepted
        .map(|_| StatusCode::OK)
        .map_err(|_| StatusCode::SERVICE_UNAVAILABLE)
}

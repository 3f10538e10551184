//! One organization makes the requests that cost the server most, in turn and then all of them at
//! once, while the requests of another one are timed. The server is stopped in the middle.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::benchmarks::line;
use super::endurance::{EMAIL, EVENTS, Expected, Latencies, report_lost, send, subscribe};
use super::process::Process;
use super::traffic::{Client, Endpoint, KEY, Manner};

/// Webhooks of the attacker, which never respond.
const WEBHOOKS: usize = 150;
/// Clients that wait for a message that does not arrive.
const WAITING: usize = 800;
const TEMPLATE: &str =
    "{% for i in range(999) %}{% for j in range(999) %}{{ i }}{% endfor %}{% endfor %}";

/// Makes one request, or holds one session. An error or a refusal is what the bounds are for.
type Attack = Box<dyn Fn(&Target) + Send + Sync>;

struct Target {
    http: SocketAddr,
    smtp: SocketAddr,
}

impl Target {
    fn call(&self, line: &str, body: &str) -> Option<serde_json::Value> {
        let called = Client::new(self.http, KEY).call(line, body);
        if called.is_err() {
            std::thread::sleep(REFUSED_PAUSE);
        }
        called.ok().map(|(_, body)| body)
    }

    /// Sends a message to many recipients over SMTP.
    fn mail(&self, recipients: usize, message: &str) {
        let mut session = "EHLO a.test\r\nMAIL FROM:<a@b.test>\r\n".to_owned();
        for number in 0..recipients {
            session.push_str(&format!("RCPT TO:<x{number}@sandbox.test>\r\n"));
        }

        session.push_str(&format!("DATA\r\n{message}\r\n.\r\nQUIT\r\n"));
        let Ok(mut stream) = TcpStream::connect(self.smtp) else {
            return std::thread::sleep(REFUSED_PAUSE);
        };

        let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
        let _ = stream.write_all(session.as_bytes());
        for reply in BufReader::new(stream).lines() {
            if reply.is_err() {
                return;
            }
        }
    }
}

/// Clients that are refused must not take all processors from the server, which shares this
/// machine only here.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);

/// Lets the server come before this thread, as if its client were on another machine. Has no
/// effect where there is no `renice`, or no `/proc`.
fn yield_to_server() {
    let Ok(thread) = std::fs::read_link("/proc/thread-self") else {
        return;
    };
    let Some(number) = thread.file_name() else {
        return;
    };

    let mut renice = Command::new("renice");
    renice.args(["-n", "19", "-p"]).arg(number);
    let _ = renice.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// The attacks, each with the number of its clients.
fn attacks(target: &Target) -> Vec<(&'static str, usize, Attack)> {
    let fields = r#"{"from":"a@sandbox.test","to":"b@sandbox.test","subject":"s","#;
    let post = |body: String| -> Attack {
        Box::new(move |target: &Target| drop(target.call("POST /api/v1/emails", &body)))
    };
    let mail = |recipients: usize, message: String| -> Attack {
        Box::new(move |target: &Target| target.mail(recipients, &message))
    };
    let hidden = |count: usize| {
        let bcc: Vec<String> = (0..count)
            .map(|number| format!("r{number}@x.test"))
            .collect();
        format!(r#"{fields}"bcc":{bcc:?}}}"#)
    };

    let nested = "Content-Type: message/rfc822\r\n\r\n".repeat(5_000);
    let large = format!("{}\r\n", "x".repeat(998)).repeat(20 << 10);
    let names = ":x".repeat(50_000);
    let signed = "y:\r\n".repeat(50_000);
    let signed = format!(
        "DKIM-Signature: v=1; a=rsa-sha256; d=sandbox.test; s=sandbox;\r\n bh=ztuGhgcQfUUZ7uRGTtFxBgxYKcd1ufjvtW9+ix6Azf8=; b=AAAA; h=from{names}\r\n{signed}\r\n"
    );
    let link = format!(r#"<a href='http://x.test/?{}'>x</a>"#, "a&".repeat(200_000));
    let clicked = target.call(
        "POST /api/v1/emails",
        &format!(r#"{fields}"html":"{link}"}}"#),
    );
    let clicked = clicked.and_then(|email| email["id"].as_str().map(str::to_owned));
    let click = format!("GET /t/c/{}/0/0", clicked.unwrap_or_default());
    let slow = target.call("POST /api/v1/domains", r#"{"name":"slow.example.com"}"#);
    let slow = slow.and_then(|domain| domain["id"].as_str().map(str::to_owned));
    let verify = format!("POST /api/v1/domains/{}/verify", slow.unwrap_or_default());
    target.call(
        "PUT /_sandbox/templates/slow",
        &format!(r#"{{"html":"{TEMPLATE}"}}"#),
    );
    vec![
        ("thousands of hidden recipients", 4, post(hidden(40_000))),
        (
            "as many webhooks and recipients as there may be",
            2,
            post(hidden(900)),
        ),
        (
            "60 MB of text",
            4,
            post(format!(r#"{fields}"text":"{}"}}"#, "x".repeat(60 << 20))),
        ),
        ("60 MB of brackets", 4, post("[".repeat(60 << 20))),
        (
            "a million values",
            4,
            post(format!(r#"{fields}"tags":[{}1]}}"#, "1,".repeat(1 << 20))),
        ),
        (
            "links with many ampersands",
            2,
            post(format!(r#"{fields}"html":"{link}"}}"#)),
        ),
        (
            "clicks on such a link",
            8,
            Box::new(move |target| drop(target.call(&click, ""))),
        ),
        (
            "slow name servers",
            50,
            Box::new(move |target| drop(target.call(&verify, ""))),
        ),
        (
            "slow templates",
            8,
            post(format!(r#"{fields}"templateId":"slow"}}"#)),
        ),
        (
            "clients that wait for a message",
            WAITING,
            Box::new(|target| {
                let wait = "GET /_sandbox/messages/wait?to=none@x.test&timeout=2s";
                target.call(wait, "");
            }),
        ),
        (
            "keys of new domains",
            8,
            Box::new(|target| drop(target.call("POST /api/v1/domains", r#"{"name":"a.test"}"#))),
        ),
        (
            "20 MB to many recipients over SMTP",
            2,
            mail(100, format!("Subject: s\r\n\r\n{large}")),
        ),
        (
            "messages in messages",
            4,
            mail(1, format!("Subject: s\r\n{nested}end")),
        ),
        ("signatures over many fields", 4, mail(1, signed)),
    ]
}

/// Clients that repeat an attack until this is dropped.
struct Attackers {
    is_over: Arc<AtomicBool>,
    requests: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Attackers {
    fn start(clients: usize, target: &Arc<Target>, attack: &Arc<Attack>) -> Self {
        let (is_over, requests): (Arc<AtomicBool>, Arc<AtomicU64>) = Default::default();
        let client = |_| {
            let is_over = Arc::clone(&is_over);
            let requests = Arc::clone(&requests);
            let target = Arc::clone(target);
            let attack = Arc::clone(attack);
            let work = move || {
                yield_to_server();
                while !is_over.load(Ordering::Relaxed) {
                    attack(&target);
                    requests.fetch_add(1, Ordering::Relaxed);
                }
            };
            // There are many, and each needs little.
            std::thread::Builder::new()
                .stack_size(256 << 10)
                .spawn(work)
                .unwrap()
        };

        let threads = (0..clients).map(client).collect();
        Self {
            is_over,
            requests,
            threads,
        }
    }

    /// Ends the attack when the requests in progress have ended. Returns their number.
    fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        self.requests.load(Ordering::Relaxed)
    }
}

/// Each attack takes as long as the load of another benchmark. `--only` and a part of the name of an
/// attack select this one, and `--only "at once"` all of them at once.
pub(crate) fn attack(time: Duration) {
    let only = std::env::args().skip_while(|text| text != "--only").nth(1);
    let is_selected = |name: &str| {
        only.as_ref()
            .is_none_or(|only| name.contains(only.as_str()))
    };

    let directory = tempfile::tempdir().unwrap();
    // A name server that never responds.
    let names = UdpSocket::bind("127.0.0.1:0").unwrap();
    let resolver = names.local_addr().unwrap();
    let server = Process::start_with(directory.path(), Some(resolver));
    let target = Arc::new(Target {
        http: server.addr,
        smtp: server.smtp,
    });
    let good = Endpoint::start(Manner::Accept { responses: 1000 });
    let hanging = Endpoint::start(Manner::Hang);
    let mut attacker = Client::new(server.addr, KEY);
    for _ in 0..WEBHOOKS {
        let events = ["email.delivered", "email.received", "email.clicked"];
        subscribe(&mut attacker, &hanging, &events, "/api/v1/webhooks");
    }

    let other = server.call("POST", "/_sandbox/organizations", r#"{"name":"Other"}"#);
    let key = other["email_key"].as_str().unwrap();
    let mut other = Client::new(server.addr, key);
    subscribe(&mut other, &good, &EVENTS, "/api/v1/webhooks");
    let (_, domain) = other
        .call("POST /api/v1/domains", r#"{"name":"other.test"}"#)
        .unwrap();
    server.call(
        "POST",
        "/_sandbox/dns/other.test/publish?organization=Other",
        "",
    );
    let verify = format!(
        "POST /api/v1/domains/{}/verify",
        domain["id"].as_str().unwrap()
    );
    assert_eq!(other.call(&verify, "").unwrap().0, 200);

    let expected = Expected::default();
    let email = EMAIL.replace("sandbox.test", "other.test");
    let measure = || {
        // The server closes a connection that is idle, as it is between two attacks.
        let mut other = Client::new(target.http, key);
        let mut latencies = Latencies::default();
        let started = Instant::now();
        while started.elapsed() < time {
            let sent = latencies.time(|| send(&mut other, &email, &expected));
            latencies.failed += u64::from(!sent.is_ok_and(|status| status == 202));
            for get in ["GET /api/v1/audiences", "GET /api/v1/domains"] {
                let read = latencies.time(|| other.call(get, ""));
                latencies.failed += u64::from(!read.is_ok_and(|(status, _)| status == 200));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        latencies
    };

    line(
        "requests of the other organization",
        measure().at(0.5),
        "ms",
        "no attack",
    );
    let attacks: Vec<_> = attacks(&target)
        .into_iter()
        .map(|(name, clients, attack)| (name, clients, Arc::new(attack)))
        .collect();
    for (name, clients, attack) in attacks.iter().filter(|(name, ..)| is_selected(name)) {
        let attackers = Attackers::start(*clients, &target, attack);
        let latencies = measure();
        let memory = format!("{latencies}; memory {:.0} MiB", server.resident_mib());
        let requests = attackers.end();
        line(
            name,
            latencies.at(1.0),
            "ms",
            &format!("{memory}; {requests} requests"),
        );
    }

    let all: Vec<Attackers> = attacks
        .iter()
        .filter(|_| is_selected("at once"))
        .map(|(_, clients, attack)| Attackers::start(*clients, &target, attack))
        .collect();
    let latencies = measure();
    line(
        "all at once: longest request",
        latencies.at(1.0),
        "ms",
        &latencies.to_string(),
    );
    line(
        "memory",
        server.resident_mib(),
        "MiB",
        &format!("at most {:.1} MiB", server.peak_mib()),
    );
    let stopped = server.terminate();
    line(
        "end after SIGTERM, under attack",
        stopped.as_secs_f64() * 1e3,
        "ms",
        "",
    );
    all.into_iter().map(Attackers::end).for_each(drop);

    let server = Process::start(directory.path());
    server.call("POST", "/_sandbox/reset", r#"{"organization":"Sandbox"}"#);
    server.settle();
    server.stop();
    report_lost(&expected, &good, directory.path());
    let unasked = good.arrived().difference(&expected.lock().unwrap()).count();
    line(
        "deliveries of what was not accepted",
        unasked as f64,
        "",
        "",
    );
}

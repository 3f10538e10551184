//! `svc listen` with an application as the receiver, and the commands around it.

mod replay;
mod trigger;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use webhook_verify::{Secret, Signature, Verifier};

use crate::support::{self, Home, Run, Service, Watchdog, accept, http_response};

const SECRET: &str = "whsec_3f1c";
const BODY: &str = "{\"event\": \"email.sent\",  \"id\":\"1\"}\r\n";

/// A running `svc listen`, which is killed at the end of the test.
struct RunningListen {
    child: Child,
    _watchdog: Watchdog,
    lines: BufReader<ChildStdout>,
    ready: Value,
}

impl RunningListen {
    fn start(home: &Home, args: &[&str]) -> Self {
        Self::start_command(home.command(args))
    }

    fn start_command(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("svc starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let watchdog = Watchdog::start(&child);
        let mut listening = Self {
            child,
            _watchdog: watchdog,
            lines,
            ready: Value::Null,
        };
        listening.ready = listening.next();
        listening
    }

    /// The next line of its output.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line:?}"))
    }

    fn port(&self) -> String {
        self.ready["listening"]
            .as_str()
            .expect("an address")
            .trim_start_matches("http://")
            .to_owned()
    }

    /// Posts a body with a signature and returns the raw response.
    fn post(&self, signature: Option<&str>, body: &str) -> String {
        let mut stream = TcpStream::connect(self.port()).expect("it listens");
        let signature = signature
            .map(|s| format!("Mail-Signature: {s}\r\n"))
            .unwrap_or_default();
        let request = format!(
            "POST /any/path HTTP/1.1\r\nHost: x\r\nX-KePt: k\u{e9}pt\r\n{signature}\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        support::limit_time(&stream);
        stream.read_to_string(&mut response).expect("a response");
        response
    }

    fn interrupt(self) -> Run {
        self.signal("-INT");
        self.end()
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, pid.as_str()])
                .status()
                .expect("runs")
                .success()
        );
    }

    fn end(mut self) -> Run {
        let mut stderr = String::new();
        self.child
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut stderr)
            .expect("UTF-8");
        let code = self.child.wait().expect("ends").code().unwrap_or(-1);
        Run {
            code,
            stdout: String::new(),
            stderr,
        }
    }
}

impl Drop for RunningListen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sign(body: &str) -> String {
    Signature::sign(
        webhook_verify::Service::Email,
        &Secret::new(SECRET).expect("a secret"),
        body,
    )
    .to_string()
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request.lines().find_map(|line| {
        let (header, value) = line.split_once(": ")?;
        header.eq_ignore_ascii_case(name).then_some(value)
    })
}

fn body(request: &str) -> &str {
    request.split_once("\r\n\r\n").expect("a body").1
}

#[test]
fn valid_deliveries_and_their_responses_are_forwarded_byte_for_byte() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let app = Service::with_responses(&[http_response(418, "X-App: yes\r\n", "short and stout")]);
    let args = [
        "listen",
        "--secret-file",
        &secret,
        "--forward-to",
        &app.url(),
    ];
    let mut listening = RunningListen::start(&home, &args);
    assert!(
        listening.port().starts_with("127.0.0.1:"),
        "bound to loopback"
    );

    let signature = sign(BODY);
    let response = listening.post(Some(&signature), BODY);
    assert!(response.starts_with("HTTP/1.1 418"), "{response}");
    assert!(
        response.contains("x-app: yes") && response.ends_with("short and stout"),
        "{response}"
    );

    let requests = app.requests();
    assert_eq!((requests.len(), body(&requests[0])), (1, BODY));
    assert_eq!(
        header(&requests[0], "mail-signature"),
        Some(signature.as_str())
    );
    assert_eq!(header(&requests[0], "x-kept"), Some("k\u{e9}pt"));

    let seen = listening.next();
    assert_eq!(
        (&seen["event"], &seen["status"]),
        (&json!("email.sent"), &json!(418))
    );
    assert_eq!(seen["verified"], true);
    assert_eq!(listening.interrupt().code, 130);
}

/// A signed body is not a way around the guard, wherever it is forwarded to.
#[test]
fn under_a_recipient_guard_only_events_are_forwarded() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let app = Service::always(202, r#"{"id":"eml_1"}"#);
    let guard = ("SVC_ALLOW_RECIPIENTS", "@example.com");
    let listen = |to: &str| {
        let mut command = home.command(&["listen", "--secret-file", &secret, "--forward-to", to]);
        command.env(guard.0, guard.1);
        command
    };

    let mut listening = RunningListen::start_command(listen(&app.url()));

    let email = r#"{"from":"a@b.test","to":"ada@customer.test","subject":"s","text":"t"}"#;
    let response = listening.post(Some(&sign(email)), email);
    assert!(response.starts_with("HTTP/1.1 403"), "{response}");

    let seen = listening.next();
    let problem = seen["problem"].as_str().expect("a problem");
    assert!(problem.contains("recipient guard"), "{seen}");
    assert!(app.requests().is_empty());

    let response = listening.post(Some(&sign(BODY)), BODY);
    assert!(response.starts_with("HTTP/1.1 202"), "{response}");

    // Any other header could make a request to send an email of it.
    let requests = app.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(header(&requests[0], "x-kept"), None);
    assert!(header(&requests[0], "mail-signature").is_some());

    let with_key = app.url().replace("http://", "http://user:mk_test_x@");
    let refused = Run::complete(listen(&with_key));
    assert_eq!(refused.error()["code"], "recipient_guard", "{refused:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_secret_file_whose_path_is_not_utf8_is_recorded() {
    use std::os::unix::ffi::OsStrExt as _;

    let home = Home::new();
    let secret = home.path(".").join(std::ffi::OsStr::from_bytes(b"s\xff"));
    std::fs::write(&secret, SECRET).expect("written");
    let app = Service::always(200, "{}");
    let mut command = home.command(&["listen", "--forward-to", &app.url(), "--secret-file"]);
    command.arg(&secret);
    let mut listening = RunningListen::start_command(command);
    listening.post(Some(&sign(BODY)), BODY);
    let seen = listening.next();
    assert_eq!(
        (&seen["status"], &seen["problem"]),
        (&json!(200), &json!(null))
    );

    let id = seen["id"].as_str().expect("an id");
    let replayed = home.run(&["replay", id]);
    assert_eq!(
        (replayed.code, app.requests().len()),
        (0, 2),
        "{replayed:?}"
    );
}

#[test]
fn invalid_signatures_get_401_and_are_not_forwarded() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let app = Service::always(200, "");
    let args = [
        "listen",
        "--secret-file",
        &secret,
        "--forward-to",
        &app.url(),
    ];
    let mut listening = RunningListen::start(&home, &args);
    let other = sign("another body");
    for signature in [None, Some(""), Some("zz"), Some(other.as_str())] {
        let response = listening.post(signature, BODY);
        assert!(
            response.starts_with("HTTP/1.1 401"),
            "{signature:?}: {response}"
        );
        assert!(response.ends_with("\r\n\r\n"), "an empty body: {response}");
        assert_eq!(listening.next()["status"], 401);
    }

    assert!(app.requests().is_empty());
}

#[test]
fn a_secret_is_required() {
    let run = Home::new().run(&["listen"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.error()["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("--secret-file"))
    );
}

#[test]
fn routes_select_events() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let bounces = Service::always(200, "{}");
    let rest = Service::always(200, "{}");
    let route = format!("email.bounced={}", bounces.url());
    let args = [
        "listen",
        "--secret-file",
        &secret,
        "--forward-to",
        &rest.url(),
        "--route",
        &route,
    ];
    let listening = RunningListen::start(&home, &args);
    for event in ["email.bounced", "email.sent"] {
        let body = format!("{{\"event\":\"{event}\"}}");
        listening.post(Some(&sign(&body)), &body);
    }

    assert_eq!((bounces.requests().len(), rest.requests().len()), (1, 1));
    assert!(bounces.requests()[0].contains("email.bounced"));
}

/// The service tries again.
#[test]
fn an_application_that_does_not_listen_gets_the_delivery_later() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let args = [
        "listen",
        "--secret-file",
        &secret,
        "--forward-to",
        "http://127.0.0.1:9",
    ];
    let mut listening = RunningListen::start(&home, &args);
    let response = listening.post(Some(&sign(BODY)), BODY);
    assert!(response.starts_with("HTTP/1.1 502"), "{response}");

    let problem = listening.next()["problem"]
        .as_str()
        .expect("a problem")
        .to_owned();
    assert!(
        problem.starts_with("cannot connect to the application"),
        "{problem}"
    );
}

#[test]
fn a_sandbox_session_receives_events_and_removes_its_webhook() {
    let home = Home::new();
    let app = Service::always(200, "{}");
    let mut listening =
        RunningListen::start(&home, &["--sandbox", "listen", "--forward-to", &app.url()]);
    assert!(
        listening.ready["webhook"].is_string(),
        "{}",
        listening.ready
    );

    home.sandbox_json(&[
        "emails",
        "send",
        "--from",
        "hello@sandbox.test",
        "--to",
        "ada@example.test",
        "--subject",
        "Hi",
        "--text",
        "t",
    ]);
    let events = [listening.next(), listening.next()].map(|seen| seen["event"].clone());
    assert!(
        events.contains(&json!("email.sent")) && events.contains(&json!("email.delivered")),
        "{events:?}"
    );

    let secret_file = listening.ready["secret_file"]
        .as_str()
        .expect("a file")
        .to_owned();
    let secret = std::fs::read_to_string(&secret_file).expect("the secret");
    let verifier = Verifier::email(Secret::new(secret).expect("a secret"));
    for request in app.requests() {
        let signature = header(&request, "mail-signature").expect("signed");
        assert!(
            verifier
                .verify(signature, body(&request).to_owned())
                .is_ok()
        );
    }

    assert_eq!(
        home.sandbox_json(&["webhooks", "list"])
            .as_array()
            .map(Vec::len),
        Some(1)
    );

    let run = listening.interrupt();
    assert_eq!(
        (run.code, run.error()["kind"].clone()),
        (130, json!("interrupted")),
        "{run:?}"
    );
    assert_eq!(home.sandbox_json(&["webhooks", "list"]), json!([]));
}

#[test]
fn the_body_of_an_unsigned_request_is_not_read() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let mut listening = RunningListen::start(&home, &["listen", "--secret-file", &secret]);
    let mut stream = TcpStream::connect(listening.port()).expect("it listens");
    // Announces a body and never sends it.
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n")
        .expect("sent");
    let mut response = [0; 12];
    support::limit_time(&stream);
    stream.read_exact(&mut response).expect("a response");
    assert_eq!(&response, b"HTTP/1.1 401");
    assert_eq!(
        listening.next()["problem"],
        "the signature header is missing: `Mail-Signature` or `X-Service-Signature`"
    );
}

/// `nohup svc listen &` outlives its terminal.
#[cfg(target_os = "linux")]
#[test]
fn listen_keeps_ignoring_a_hangup_that_was_ignored_at_its_start() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let svc = home.command(&["listen", "--secret-file", &secret]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(svc.get_program());
    shell
        .args(svc.get_args())
        .env_clear()
        .current_dir(home.path("."));
    shell.envs(
        svc.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let mut listening = RunningListen::start_command(shell);

    let pid = listening.child.id().to_string();
    let kill = |signal: &str| {
        Command::new("kill")
            .args([signal, pid.as_str()])
            .status()
            .expect("kill runs")
    };

    assert!(kill("-HUP").success());

    let response = listening.post(Some(&sign(BODY)), BODY);
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(kill("-TERM").success());
    assert!(listening.child.wait().expect("svc ends").code().is_some());
}

#[test]
fn signature_diagnostics_are_not_sent_to_the_sender() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let mut listening = RunningListen::start(&home, &["listen", "--secret-file", &secret]);
    let response = listening.post(Some(&sign(BODY)), BODY.trim_end());
    assert!(
        response.starts_with("HTTP/1.1 401") && response.ends_with("\r\n\r\n"),
        "{response}"
    );

    let problem = listening.next()["problem"]
        .as_str()
        .expect("a reason")
        .to_owned();
    assert!(problem.contains("before they are trimmed"), "{problem}");

    let mut extraction = RunningListen::start(
        &home,
        &[
            "listen",
            "--secret-file",
            &secret,
            "--service",
            "extraction",
        ],
    );
    extraction.post(Some(&sign(BODY)), BODY);
    let problem = extraction.next()["problem"]
        .as_str()
        .expect("a reason")
        .to_owned();
    assert!(problem.ends_with(": use --service email"), "{problem}");
}

#[test]
fn ctrl_c_waits_for_deliveries_in_progress() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let app = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", app.local_addr().expect("an address"));
    let args = ["listen", "--secret-file", &secret, "--forward-to", &url];
    let listening = RunningListen::start(&home, &args);
    let response = std::thread::scope(|scope| {
        let posting = scope.spawn(|| listening.post(Some(&sign(BODY)), BODY));
        let mut stream = accept(&app);
        listening.signal("-INT");
        // After the signal, svc refuses new connections.
        support::wait_until("the listener to close", || {
            TcpStream::connect(listening.port()).err()
        });
        stream
            .write_all(http_response(202, "", "late").as_bytes())
            .expect("sent");
        posting.join().expect("no panic")
    });
    assert!(
        response.starts_with("HTTP/1.1 202") && response.ends_with("late"),
        "{response}"
    );
    assert_eq!(listening.end().code, 130);
}

#[test]
fn sigterm_exits_with_success() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let listening = RunningListen::start(&home, &["listen", "--secret-file", &secret]);
    // A connection without a request does not hold it up.
    let mut idle = TcpStream::connect(listening.port()).expect("it listens");
    idle.set_read_timeout(Some(Duration::from_secs(15)))
        .expect("set");
    listening.post(None, "");
    listening.signal("-TERM");
    assert_eq!(idle.read(&mut [0]).expect("closed"), 0);

    let run = listening.end();
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
}

#[test]
fn a_webhook_that_cannot_be_removed_is_reported() {
    let home = Home::new();
    let left = r#"[{"id":"whk_0","url":"https://me.tunnel.example/svc-listen"},
        {"id":"whk_x","url":"https://other.tunnel.example/svc-listen"},
        {"id":"whk_y","url":"http://127.0.0.1:9/hooks"}]"#;
    let created = r#"{"id":"whk_1","signingSecret":"whsec_of_the_session"}"#;
    let service = Service::with_responses(&[
        http_response(200, "", left),
        http_response(204, "", ""),
        http_response(201, "", created),
        http_response(403, "", "{}"),
    ]);
    let key = home.file("key", "mk_test_x");
    let url = service.url();
    home.file("config/svc/config.toml", "[profiles.shop]\n");
    let profile = ["--profile", "shop"];
    let args = ["--email-url", &url, "--key-file", &key, "listen", "--route"];
    let route = "email.*=http://127.0.0.1:9/x";
    let args = [
        &profile,
        &args[..],
        &[route, "--public-url", "https://me.tunnel.example/"],
    ]
    .concat();
    let listening = RunningListen::start(&home, &args);
    assert_eq!(listening.ready["webhook"], "whk_1");
    assert!(
        !listening.ready.to_string().contains("whsec"),
        "{}",
        listening.ready
    );

    let run = listening.interrupt();
    let error = run.error();
    assert_eq!(
        (run.code, error["code"].clone()),
        (130, json!("webhook_not_deleted")),
        "{run:?}"
    );
    assert_eq!(
        error["hint"],
        "delete it: svc --profile shop webhooks delete whk_1 --yes"
    );

    let requests = service.requests();
    assert!(
        requests[1].starts_with("DELETE /api/v1/webhooks/whk_0 "),
        "{requests:?}"
    );

    let registration: Value = serde_json::from_str(body(&requests[2])).expect("JSON");
    assert_eq!(registration["url"], "https://me.tunnel.example/svc-listen");
    assert_eq!(
        registration["events"].as_array().map(Vec::len),
        Some(6),
        "no opens, no clicks"
    );
    assert!(
        requests[3].starts_with("DELETE /api/v1/webhooks/whk_1 "),
        "{requests:?}"
    );
}

/// The webhook of an application that is not running stays, as does that of a session that runs.
#[test]
fn the_next_session_deletes_the_webhook_of_a_killed_one() {
    let home = Home::new();
    let start = || RunningListen::start(&home, &["--sandbox", "listen"]);
    let kill = |listening: &mut RunningListen| {
        listening.child.kill().expect("killed");
        listening.child.wait().expect("ended");
    };
    let id = |listening: &RunningListen| {
        let id = listening.ready["webhook"].as_str();
        id.expect("an id").to_owned()
    };
    let assert_webhooks = |mut expected: Vec<String>| {
        let run = home.run(&["--sandbox", "webhooks", "list", "--jq", ".[].id"]);
        let mut found = run.stdout.lines().collect::<Vec<_>>();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{run:?}");
    };

    // The first one has the sandbox inside itself, which the others use.
    let mut running = start();
    let mut killed = start();
    let away = "http://127.0.0.1:9/hooks";
    let away = home.sandbox_json(&["webhooks", "create", away, "--event", "email.bounced"]);
    let away = away["id"].as_str().expect("an id").to_owned();
    kill(&mut killed);
    assert_webhooks(vec![away.clone(), id(&running), id(&killed)]);

    let mut next = start();
    assert_webhooks(vec![away.clone(), id(&running), id(&next)]);

    // The next sandbox on the same data has another port.
    kill(&mut next);
    kill(&mut running);
    let last = start();
    assert_webhooks(vec![away.clone(), id(&last)]);
    assert_eq!(last.interrupt().code, 130);
    assert_webhooks(vec![away]);

    let records = std::fs::read_dir(home.path(".local/state/svc/listen")).expect("read");
    assert_eq!(records.count(), 0);
}

/// The application keeps its secret from session to session.
#[test]
fn a_profile_has_one_secret() {
    let home = Home::new();
    let printed = home.run(&["--sandbox", "listen", "--print-secret"]);
    assert_eq!(printed.code, 0, "{printed:?}");

    let secret = printed.stdout.trim_end().to_owned();
    assert!(secret.starts_with("whsec_"), "{secret}");

    let other = home.run(&["listen", "--print-secret", "--json"]).json();
    assert_ne!(other["secret"], secret.as_str());

    let app = Service::always(200, "{}");
    let given = home.file("given", "whsec_given");
    let args = ["--sandbox", "listen", "--forward-to", &app.url()];
    for (more, secret) in [
        (&[][..], secret.as_str()),
        (&[], secret.as_str()),
        (&["--secret-file", &given], "whsec_given"),
    ] {
        let mut listening = RunningListen::start(&home, &[&args[..], more].concat());
        let id = listening.ready["webhook"]
            .as_str()
            .expect("an id")
            .to_owned();
        let test = home.run(&["--sandbox", "webhooks", "test", &id]);
        assert_eq!(test.code, 0, "{test:?}");
        let file = listening.ready["secret_file"]
            .as_str()
            .expect("a file")
            .to_owned();
        assert_eq!(std::fs::read_to_string(&file).expect("the secret"), secret);
        #[cfg(unix)]
        if more.is_empty() {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&file)
                .expect("there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let record = listening.next()["id"].as_str().expect("an id").to_owned();
        assert_eq!(listening.interrupt().code, 130);
        assert_eq!(home.run(&["--sandbox", "replay", &record]).code, 0);
        let to = app.url();
        let options = [
            &["--sandbox", "trigger", "email.sent", "--to", &to][..],
            more,
        ]
        .concat();
        assert_eq!(home.run(&options).code, 0);
        let requests = app.requests();
        let verifier = Verifier::email(Secret::new(secret).expect("a secret"));
        for request in &requests[requests.len() - 3..] {
            let signature = header(request, "mail-signature").expect("signed");
            assert!(
                verifier.verify(signature, body(request).to_owned()).is_ok(),
                "{request}"
            );
        }
    }
}

#[test]
fn a_webhook_without_a_secret_is_removed() {
    let home = Home::new();
    let service = Service::with_responses(&[
        http_response(200, "", "[]"),
        http_response(201, "", r#"{"id":"whk_1"}"#),
        http_response(204, "", ""),
    ]);
    let key = home.file("key", "mk_test_x");
    let run = home.run(&[
        "--email-url",
        &service.url(),
        "--key-file",
        &key,
        "listen",
        "--public-url",
        "https://me.tunnel.example",
    ]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:?}");
    assert!(service.requests()[2].starts_with("DELETE "));
}

#[test]
fn a_dry_run_shows_the_webhook() {
    let home = Home::new();
    let base = ["--sandbox", "--dry-run", "listen", "--port", "4081"];
    let dry = home.run(&[&base[..], &["--route", "email.bounced=http://localhost/b"]].concat());
    assert_eq!(dry.code, 0, "{dry:?}");
    assert_eq!(
        dry.json()["body"],
        json!({"url": "http://127.0.0.1:4081/svc-listen", "events": ["email.sent",
            "email.delivered", "email.bounced", "email.complained", "email.failed",
            "email.received"]})
    );
    assert!(!dry.stderr.contains("warning"), "{dry:?}");

    let dry = home.run(&[&base[..], &["--route", "email.delivred=http://localhost/b"]].concat());
    assert!(
        dry.stderr
            .contains("`email.delivred` is not a documented event"),
        "{dry:?}"
    );
    assert_eq!(home.run(&["--dry-run", "listen"]).code, 2);

    let events =
        |more: &[&str]| home.run(&[&base[..], more].concat()).json()["body"]["events"].clone();
    assert_eq!(
        events(&["--events", "email.opened,email.sent"]),
        json!(["email.opened", "email.sent"])
    );

    let all = events(&["--route", "email.*=http://localhost/a"]);
    assert_eq!(all.as_array().map(Vec::len), Some(6), "{all}");

    let opened = events(&["--route", "email.opened=http://localhost/a"]);
    assert_eq!(opened.as_array().map(Vec::len), Some(7), "{opened}");
}

/// A body is read before its signature can be verified.
#[test]
fn large_bodies_and_many_connections_are_refused() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let mut listening = RunningListen::start(&home, &["listen", "--secret-file", &secret]);
    let large = format!("{{\"id\":\"{}\"}}", "x".repeat(1 << 20));
    let response = listening.post(Some(&sign(&large)), &large);
    assert!(response.starts_with("HTTP/1.1 413 "), "{response}");

    let report = listening.next();
    assert_eq!(
        report["problem"],
        "the body is larger than 1 MiB (--max-body)"
    );

    // Idle connections hold all places, and one that is closed makes room.
    let address = listening.ready["listening"]
        .as_str()
        .expect("an address")
        .to_owned();
    let address = address.trim_start_matches("http://");
    let idle = (0..64)
        .map(|_| TcpStream::connect(address).expect("connected"))
        .collect::<Vec<_>>();
    let mut waiting = TcpStream::connect(address).expect("in the backlog");
    let head = format!(
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n",
        BODY.len()
    );
    let request = format!("{head}mail-signature: {}\r\n\r\n{BODY}", sign(BODY));
    waiting.write_all(request.as_bytes()).expect("sent");
    waiting
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("set");
    assert!(waiting.read(&mut [0; 16]).is_err(), "no place is free");

    drop(idle);
    waiting
        .set_read_timeout(Some(support::TIME_LIMIT))
        .expect("set");
    let mut seen = [0; 12];
    waiting.read_exact(&mut seen).expect("a response");
    assert_eq!(&seen, b"HTTP/1.1 200");

    let report = listening.next();
    assert_eq!(
        report["body"],
        serde_json::from_str::<Value>(BODY).expect("JSON")
    );

    let args = ["listen", "--secret-file", &secret, "--max-body", "2"];
    let listening = RunningListen::start(&home, &args);
    let response = listening.post(Some(&sign(&large)), &large);
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

/// For CI: the command ends by itself.
#[test]
fn listening_ends_after_so_many_deliveries_or_at_an_event() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let listen = ["listen", "--secret-file", &secret];
    let listening = RunningListen::start(&home, &[&listen[..], &["--count", "2"]].concat());
    assert!(listening.post(None, BODY).starts_with("HTTP/1.1 401"));

    for _ in 0..2 {
        let response = listening.post(Some(&sign(BODY)), BODY);
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }

    assert_eq!(listening.end().code, 0);

    let until = ["--until", "email.bounced"];
    let listening = RunningListen::start(&home, &[&listen[..], &until].concat());
    for body in [BODY, &BODY.replace("email.sent", "email.bounced")] {
        listening.post(Some(&sign(body)), body);
    }

    assert_eq!(listening.end().code, 0);

    // The newest is the one that it waited for.
    let app = Service::always(200, "");
    let last = home.run(&[
        "replay",
        "--last",
        "--to",
        &app.url(),
        "--secret-file",
        &secret,
    ]);
    let last = last.json();
    assert_eq!(
        (&last[0]["event"], &last[1]),
        (&json!("email.bounced"), &Value::Null)
    );

    // The event may be inside another field.
    let dialect = "delivery-event=event-data.event";
    assert_eq!(home.run(&["config", "set", "dialect", dialect]).code, 0);

    let listening = RunningListen::start(&home, &[&listen[..], &until].concat());
    let body = r#"{"signature":{"t":1},"event-data":{"event":"email.bounced"}}"#;
    listening.post(Some(&sign(body)), body);
    assert_eq!(listening.end().code, 0);
    assert_eq!(home.run(&["config", "unset", "dialect"]).code, 0);

    let in_time = ["--count", "1", "--timeout", "100ms"];
    let listening = RunningListen::start(&home, &[&listen[..], &in_time].concat());
    assert_eq!(listening.end().code, 10);
}

/// An application that has only HTTP/2, in cleartext: its frames, written by hand.
fn http2_application() -> (String, std::thread::JoinHandle<()>) {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const SETTINGS_ACK: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];
    // The headers of stream 1, its end, and the status 200 from the static table.
    const RESPONSE: [u8; 10] = [0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88];

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!(
        "http://{}/hooks",
        listener.local_addr().expect("an address")
    );
    let serving = std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            support::limit_time(&stream);
            // A client that tries HTTP/1.1 first may have given this connection up.
            if stream.write_all(&SETTINGS).is_err() {
                continue;
            }
            let mut read = Vec::new();
            let mut buffer = [0; 4096];
            // A frame of the connection may follow the body.
            while !String::from_utf8_lossy(&read).contains(BODY) {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => read.extend_from_slice(&buffer[..count]),
                }
            }
            if !read.starts_with(b"PRI * HTTP/2.0") {
                continue;
            }
            stream.write_all(&SETTINGS_ACK).expect("written");
            stream.write_all(&RESPONSE).expect("written");
            // Until the client has read it.
            let _ = stream.read_to_end(&mut read);
            return;
        }
    });
    (url, serving)
}

#[test]
fn an_application_that_has_only_http2_gets_deliveries() {
    let home = Home::new();
    let secret = home.file("secret", SECRET);
    let (url, serving) = http2_application();
    let args = ["listen", "--secret-file", &secret, "--forward-to", &url];
    let mut listening = RunningListen::start(&home, &args);
    listening.post(Some(&sign(BODY)), BODY);
    let report = listening.next();
    assert_eq!(report["status"], 200, "{report}");

    serving.join().expect("no panic");
}

//! `svc certify`: a good receiver passes, and each defect of a receiver is found.

mod receiver;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use self::receiver::{Arrived, OLD_SECRET, Receiver, SECRET};
use crate::support::{Home, Run, Service, TIME_LIMIT, http_response};

/// Defects, and the checks that they fail, or give advice for.
const DEFECTS: &[(&str, &[&str])] = &[
    // Takes longest.
    ("hang-up-at-timeout", &["hang-up"]),
    ("good-delivery", &["good-delivery"]),
    ("unknown-event", &["unknown-event"]),
    ("unknown-field", &["unknown-field"]),
    ("upper-case-hex", &["upper-case-hex"]),
    ("formatted-body", &["formatted-body"]),
    ("body-not-utf8", &["body-not-utf8"]),
    // A delivery is repeated in both checks.
    ("repeated-delivery", &["repeated-delivery", "simultaneous-deliveries"]),
    ("simultaneous-deliveries", &["simultaneous-deliveries"]),
    ("missing-signature", &["missing-signature"]),
    ("empty-signature", &["empty-signature"]),
    // These differ from a good delivery only in the signature.
    (
        "any-signature",
        &[
            "wrong-secret",
            "truncated-signature",
            "changed-body",
            "truncated-body",
            "reserialized-body",
            "decoded-body",
        ],
    ),
    ("wrong-secret", &["wrong-secret"]),
    ("without-prefix", &["wrong-secret"]),
    ("truncated-signature", &["truncated-signature"]),
    ("compares-8-digits", &["truncated-signature", "extended-signature"]),
    ("extended-signature", &["extended-signature"]),
    ("reserialized-body", &["reserialized-body"]),
    ("decoded-body", &["decoded-body"]),
    ("other-service", &["other-service"]),
    ("doubled-header", &["doubled-header"]),
    ("other-prefix", &["other-prefix"]),
    ("prefix-letter-case", &["prefix-letter-case"]),
    ("reveals-signature", &["reveals-signature"]),
    ("refusal-reason", &["refusal-reason"]),
    ("refusal-text", &["refusal-reason"]),
    ("old-secret", &["old-secret"]),
    ("response-time", &["response-time"]),
    ("hang-up", &["hang-up"]),
    ("hang-up-and-refuse", &["hang-up"]),
    ("size-limit", &["size-limit"]),
    ("body-deadline", &["body-deadline"]),
    // These are no defects.
    ("busy", &[]),
    ("waits", &[]),
    ("repeats-the-work", &[]),
];

fn home() -> Home {
    let home = Home::new();
    home.file("secret.txt", SECRET);
    home.file("old.txt", OLD_SECRET);
    home
}

fn args<'a>(url: &'a str, service: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = ["certify", url, "--service", service, "--secret-file", "secret.txt"];
    [&args[..], more].concat()
}

fn certify(receiver: &Receiver, service: &str, more: &[&str]) -> Run {
    home().run(&args(&receiver.url, service, more))
}

/// The checks with one of these results.
fn with_result(report: &Value, results: &[&str]) -> Vec<String> {
    let checks = report["checks"].as_array().expect("a list").iter();
    let checks = checks.filter(|check| results.iter().any(|result| check["result"] == *result));
    checks.map(|check| check["check"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_good_receiver_passes_every_check() {
    let examine = |service, documented| {
        let receiver = Receiver::start(service, "");
        let run = certify(&receiver, service, &["--old-secret-file", "old.txt", "--strict"]);
        let report = run.json();
        let mut notes = format!(
            "note: {} passed, 0 failed, 0 advice, 0 skipped\n",
            report["checks"].as_array().expect("a list").len()
        );
        let expected = match documented {
            true => "2xx within 10 s",
            false => {
                notes += "note: the service's reference names no timeout for deliveries: \
                          10 s is assumed\n";
                "2xx within 10 s (assumed)"
            }
        };
        assert_eq!((run.code, run.stderr), (0, notes), "{report}");
        assert_eq!(report["checks"][0]["expected"], expected);
        assert_eq!(report["timeout_seconds"], 10);
        assert_eq!(report["timeout_documented"], documented);
        let list = home().run(&["certify", "--list", "--service", service]).json();
        let names = list.as_array().expect("a list").iter().map(|check| &check["check"]);
        let names = names.map(|name| name.as_str().expect("a name").to_owned());
        assert_eq!(with_result(&report, &["passed"]), names.collect::<Vec<_>>(), "{report}");
        let counts = ["failures", "advice", "skipped"].map(|count| report[count].clone());
        assert_eq!((&report["passed"], counts), (&true.into(), [0, 0, 0].map(Value::from)));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| examine("email", true));
        scope.spawn(|| examine("extraction", false));
    });
}

/// A receiver that is too slow may have accepted what was forged.
#[test]
fn no_response_is_no_refusal() {
    let receiver = Receiver::start("email", "silent-when-forged");
    let only = ["--only", "good-delivery", "--only", "wrong-secret"];
    let run = certify(&receiver, "email", &only);
    let checks = run.json()["checks"].clone();
    assert_eq!((run.code, &checks[0]["result"]), (0, &"passed".into()), "{run:?}");
    assert_eq!(checks[1]["result"], "skipped");
    let received = "cannot tell from outside: a random secret: no response within 10 s";
    assert_eq!(checks[1]["received"], received);
}

/// The receiver has responded before a sender could disconnect. On a busy machine every handler is
/// slow, so that only a run that was fast as a whole tells something.
#[test]
fn a_fast_handler_is_not_said_to_survive_a_disconnection() {
    let receiver = Receiver::start("email", "at-once");
    let begun = Instant::now();
    let run = loop {
        let started = Instant::now();
        let run = certify(&receiver, "email", &["--only", "hang-up", "--strict"]);
        if started.elapsed() < Duration::from_secs(2) {
            break run;
        }
        assert!(begun.elapsed() < TIME_LIMIT, "no run took less than two seconds: {run:?}");
    };
    let check = &run.json()["checks"][0];
    assert_eq!((run.code, &check["result"]), (0, &"skipped".into()), "{run:?}");
    let received = check["received"].as_str().expect("a text");
    assert!(received.starts_with("cannot tell from outside: 204 after "), "{received}");
}

#[test]
fn each_defect_is_found() {
    for name in home().run(&["certify", "--list"]).json().as_array().expect("a list") {
        let name = name["check"].as_str().expect("a name");
        assert!(DEFECTS.iter().any(|(_, found)| found.contains(&name)), "no receiver fails {name}");
    }
    // Most of the time is spent waiting for slow receivers.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some((defect, found)) = DEFECTS.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let receiver = Receiver::start("extraction", defect);
                    let mut more = vec!["--old-secret-file", "old.txt"];
                    // On a busy machine, every receiver is slow.
                    let is_slow_handler = ["waits", "repeats-the-work"].contains(defect);
                    for timed in ["response-time", "body-deadline", "hang-up"] {
                        let is_examined = timed == "hang-up" && is_slow_handler;
                        if !found.contains(&timed) && !is_examined {
                            more.extend(["--skip", timed]);
                        }
                    }
                    let run = certify(&receiver, "extraction", &more);
                    let report = run.json();
                    let not_passed = with_result(&report, &["failed", "advice"]);
                    assert_eq!(not_passed, *found, "{defect}: {}", run.stderr);
                    let failed = with_result(&report, &["failed"]);
                    let code = if failed.is_empty() { 0 } else { 10 };
                    assert_eq!(run.code, code, "{defect}: {run:?}");
                }
            });
        }
    });
    // The email service has no prefix.
    let receiver = Receiver::start("email", "other-prefix");
    let timed = ["--skip", "response-time", "--skip", "body-deadline", "--skip", "hang-up"];
    let report = certify(&receiver, "email", &timed).json();
    assert_eq!(with_result(&report, &["failed", "advice"]), ["other-prefix"]);
    assert_eq!(with_result(&report, &["skipped"]), ["old-secret"], "no old secret was given");
}

#[test]
fn advice_is_a_failure_only_with_strict() {
    let receiver = Receiver::start("email", "refusal-reason");
    let lenient = certify(&receiver, "email", &["--only", "refusal-reason"]);
    assert_eq!((lenient.code, &lenient.json()["advice"]), (0, &1.into()), "{lenient:?}");
    assert_eq!(lenient.json()["checks"][0]["received"], "400, 401, 401");
    let strict = certify(&receiver, "email", &["--only", "refusal-reason", "--strict"]);
    assert_eq!((strict.code, &strict.error()["code"]), (10, &"receiver_advice".into()));
    assert_eq!(strict.json()["passed"], true);
}

#[test]
fn a_redirect_does_not_accept_a_delivery() {
    let service = Service::with_responses(&[http_response(308, "location: /other\r\n", "")]);
    let run = home().run(&args(&service.url(), "email", &["--only", "good-delivery"]));
    let received = "email.sent: 308 to /other; the services follow no redirect";
    assert_eq!((run.code, &run.json()["checks"][0]["received"]), (10, &received.into()), "{run:?}");
}

#[test]
fn an_unreachable_receiver_is_reported_before_any_check() {
    let run = home().run(&args("http://127.0.0.1:9/hooks", "email", &[]));
    assert_eq!((run.code, run.stdout.as_str()), (8, ""), "{run:?}");
    assert_eq!(run.error()["code"], "endpoint_unreachable");
}

/// One error instead of a failure of every check.
#[cfg(target_os = "linux")]
#[test]
fn a_receiver_that_stops_is_reported_as_such() {
    use std::io::Write as _;
    use std::net::{Shutdown, TcpStream};
    use std::os::fd::OwnedFd;

    use crate::support::{accept, listen, read_request};
    let examine = |last: u16| {
        let (listener, url) = listen();
        let receiver = std::thread::spawn(move || {
            drop(accept(&listener)); // sends no request
            let respond = |mut stream: TcpStream, status| {
                read_request(&stream).expect("a request");
                stream.write_all(http_response(status, "", "").as_bytes()).expect("sent");
            };
            for _ in 1..8 {
                respond(accept(&listener), 204);
            }
            // Stops to listen before the last response, so that no connection waits, and keeps the
            // port, so that no other test gets it.
            let stream = accept(&listener);
            let listener = TcpStream::from(OwnedFd::from(listener));
            listener.shutdown(Shutdown::Both).expect("stopped");
            respond(stream, last);
            listener
        });
        let only = ["--only", "good-delivery", "--only", "unknown-event", "--only", "changed-body"];
        let run = home().run(&args(&url, "email", &only));
        drop(receiver.join().expect("no panic"));
        run
    };
    let run = examine(204);
    let (report, error) = (run.json(), run.error());
    assert_eq!((run.code, &error["code"]), (8, &"endpoint_unreachable".into()), "{run:?}");
    let message = error["message"].as_str().expect("a text");
    assert!(message.starts_with("in the check unknown-event: cannot connect"), "{message}");
    assert_eq!((&report["passed"], &report["failures"]), (&false.into(), &0.into()));
    assert_eq!(with_result(&report, &["skipped"]), ["unknown-event", "changed-body"]);

    let run = examine(500);
    assert_eq!((run.code, &run.error()["code"]), (10, &"receiver_failed".into()), "{run:?}");
    let message = "the receiver failed: good-delivery; it cannot be reached any more since \
                   unknown-event";
    assert_eq!(run.error()["message"], message);
}

#[test]
fn a_receiver_that_accepts_nothing_gets_a_hint() {
    let service = Service::always(404, "");
    let run = home().run(&args(&service.url(), "email", &["--only", "good-delivery"]));
    let hint = "it accepted no delivery at all: check the URL, --service and --secret-file";
    assert_eq!((run.code, &run.error()["hint"]), (10, &hint.into()), "{run:?}");
}

#[test]
fn the_examination_has_a_deadline() {
    let receiver = Receiver::start("email", "silent");
    let run = certify(&receiver, "email", &["--timeout", "300ms"]);
    assert_eq!((run.code, &run.error()["code"]), (10, &"not_finished".into()), "{run:?}");
    let report = run.json();
    assert_eq!((&report["passed"], &report["failures"]), (&false.into(), &0.into()));
    assert_eq!(report["checks"][0]["received"], "not finished within 0.3 s");
}

/// Every receiver would pass.
#[test]
fn the_old_secret_is_another_one() {
    let home = home();
    home.file("copy.txt", format!("{SECRET}\n"));
    let run = home.run(&args("http://127.0.0.1:9/", "email", &["--old-secret-file", "copy.txt"]));
    let message = "--old-secret-file: the same secret as in --secret-file";
    assert_eq!((run.code, &run.error()["message"]), (2, &message.into()), "{run:?}");
}

#[test]
fn checks_are_selected_by_name() {
    let receiver = Receiver::start("email", "");
    let only = ["--only", "missing-signature", "--only", "good-delivery"];
    let report = certify(&receiver, "email", &only).json();
    assert_eq!(with_result(&report, &["passed"]), ["good-delivery", "missing-signature"]);
    let both = [&only[..], &["--skip", "good-delivery"]].concat();
    let report = certify(&receiver, "email", &both).json();
    assert_eq!(with_result(&report, &["passed"]), ["missing-signature"]);
    // This check is for the extraction service.
    let none = certify(&receiver, "email", &["--only", "prefix-letter-case"]);
    assert_eq!((none.code, none.error()["kind"].as_str()), (2, Some("usage")), "{none:?}");
    let unknown = certify(&receiver, "email", &["--only", "good"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
}

#[test]
fn a_dry_run_lists_the_requests_and_sends_nothing() {
    let receiver = Receiver::start("extraction", "");
    let run = certify(&receiver, "extraction", &["--dry-run"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    let requests = run.json();
    let sent = |check: &str| {
        let requests = requests.as_array().expect("a list").iter();
        requests.filter(|request| request["check"] == check).count()
    };
    assert_eq!((sent("good-delivery"), sent("doubled-header"), sent("size-limit")), (2, 3, 1));
    assert_eq!(receiver.arrived(), []);
}

/// Each command is run in a shell, with a `curl` that prints its arguments (in one piece, as
/// several run at once), and has to send what `svc certify` has sent.
#[cfg(unix)]
#[test]
fn the_commands_repeat_the_requests_without_showing_the_secret() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    for service in ["email", "extraction"] {
        let receiver =
            Receiver::start(service, if service == "email" { "at-once" } else { "hang-up" });
        let home = home();
        let more = ["--old-secret-file", "old.txt"];
        let run = home.run(&args(&receiver.url, service, &more));
        assert!(!format!("{run:?}").contains(&SECRET[..10]), "a secret is shown: {run:?}");
        let curl = home.file("bin/curl", "#!/bin/sh\nexec printf '%s\\000' \"$@\"\n");
        std::fs::set_permissions(curl, std::fs::Permissions::from_mode(0o755)).expect("set");
        symlink(env!("CARGO_BIN_EXE_svc"), home.path("bin/svc")).expect("linked");
        let path = format!("{}:/usr/bin:/bin", home.path("bin").display());
        let arrived = receiver.arrived();
        let mut repeated = 0;
        for check in run.json()["checks"].as_array().expect("a list") {
            let Some(line) = check["reproduce"].as_str() else {
                assert_eq!((&check["check"], service), (&"hang-up".into(), "email"));
                continue;
            };
            // The body of the others is not in an argument.
            if !line.starts_with("B=") && !line.starts_with("T=") {
                let is_known = ["svc trigger ", "head -c ", "{ while printf "];
                assert!(is_known.iter().any(|known| line.starts_with(known)), "{line}");
                continue;
            }
            assert_eq!(line.lines().count(), 1, "{line}");
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", line]).current_dir(home.path("")).env_clear().env("PATH", &path);
            let output = shell.env("HOME", home.path("")).output().expect("sh runs");
            assert!(output.status.success(), "{line}: {output:?}");
            let request = of_curl(&output.stdout, check["check"].as_str().expect("a name"));
            assert!(arrived.iter().any(|sent| is_repeated(sent, &request)), "{line}: {request:?}");
            repeated += 1;
        }
        assert!(repeated > 15, "{repeated}");
    }
}

/// Whether a request was sent again. If it had a correct signature, it has a new id.
#[cfg(unix)]
fn is_repeated(sent: &Arrived, again: &Arrived) -> bool {
    if sent == again {
        return true;
    }
    let sent_text = String::from_utf8_lossy(&sent.body);
    let Some((_, tail)) = sent_text.split_once(r#""id":"#) else { return false };
    let id = &tail.trim_start_matches([' ', '"'])[..36];
    let again_text = String::from_utf8_lossy(&again.body);
    let Some((_, tail)) = again_text.split_once("00000000-0000-4000-8000-") else { return false };
    let (digits, tail) = tail.split_at(12);
    assert!(digits.parse::<u64>().is_ok() && tail.starts_with('"'), "{again_text}");
    sent.check == again.check
        && sent_text.replace(id, &format!("00000000-0000-4000-8000-{digits}")) == again_text
        && again.signatures.len() == sent.signatures.len()
        && again.signatures != sent.signatures
}

/// The request of the first `curl` that these arguments, each ended by a null byte, make.
#[cfg(unix)]
fn of_curl(arguments: &[u8], check: &str) -> Arrived {
    let words = arguments.split(|byte| *byte == 0).collect::<Vec<_>>();
    let mut request = Arrived { check: check.to_owned(), signatures: vec![], body: vec![] };
    for pair in words.windows(2) {
        match pair[0] {
            b"-H" => {
                let header = String::from_utf8(pair[1].to_vec()).expect("UTF-8");
                let (name, value) = header
                    .split_once(": ")
                    .or_else(|| header.strip_suffix(';').map(|name| (name, "")))
                    .expect("a header");
                if name.ends_with("-Signature") {
                    request.signatures.push((name.to_lowercase(), value.to_owned()));
                }
            }
            b"--data-binary" => {
                request.body = pair[1].to_vec();
                break;
            }
            _ => {}
        }
    }
    request
}

#[cfg(unix)]
#[test]
fn another_machine_needs_a_confirmation() {
    use crate::pty::Terminal;
    let receiver = Receiver::start("email", "");
    // Leads to this machine, but is not a loopback address.
    let url = receiver.url.replace("127.0.0.1", "0.0.0.0");
    let args = args(&url, "email", &["--only", "good-delivery"]);
    let home = home();
    let piped = home.run(&args);
    assert_eq!((piped.code, piped.stdout.as_str()), (2, ""), "{piped:?}");
    assert_eq!(receiver.arrived(), []);
    let answer = |typed: &str| {
        let mut terminal = Terminal::start(&home, &args, &[("NO_COLOR", "1")], 100);
        terminal.until(&format!("Send test deliveries to {url}? [y/N] "));
        terminal.write(typed);
        terminal.end()
    };
    let declined = answer("n\n");
    assert_eq!(declined.code, 2, "{:?}", declined.text);
    assert_eq!(receiver.arrived(), []);
    let confirmed = answer("y\n");
    assert_eq!(confirmed.code, 0, "{:?}", confirmed.text);
    assert_eq!(receiver.arrived().len(), 8, "one for each event");
    let yes = home.run(&[&args[..], &["--yes"]].concat());
    assert_eq!(yes.code, 0, "{yes:?}");
}

//! What a service responds is never a command, a line of output, or a place for the key.

use std::process::Command;

use serde_json::{Value, json};

use crate::every_command;
use crate::support::{Home, Run, Service, http_response, is_everything};

/// An id that would run a command if it were pasted without quotes, and that forges a line.
const ID: &str =
    "eml_1; touch pwned #\nFORGED: all is well\n$(touch pwned) `touch pwned` '\"\\ \u{202e}";

fn run(home: &Home, service: &Service, args: &[&str]) -> Run {
    let url = service.url();
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_abcdef123"),
        ("SVC_EXTRACTION_URL", url.as_str()),
        ("SVC_EXTRACTION_KEY", "sk_test_abcdef123"),
    ];
    home.run_with_env(args, &env)
}

/// Runs the suggested commands as a person would who pastes them, with an `svc` that does nothing.
fn paste(home: &Home, args: &[&str], text: &str) -> usize {
    let commands = text
        .lines()
        .filter_map(|line| line.split_once("svc "))
        .map(|(_, command)| format!("svc {command}\n"))
        .collect::<Vec<_>>();
    if commands.is_empty() {
        return 0;
    }

    let script = format!("svc() {{ :; }}\n{}", commands.concat());
    let ran = Command::new("bash")
        .args(["-c", &script])
        .current_dir(home.path("."))
        .output();
    if ran.is_ok() {
        assert!(!home.path("pwned").exists(), "{args:?}: {text}");
    }
    commands.len()
}

/// What follows a command in a hint, for a person to read.
fn hint_of(run: &Run) -> String {
    let last = run.stderr.lines().last().unwrap_or_default();
    match serde_json::from_str::<Value>(last) {
        Ok(error) => error["error"]["hint"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        Err(_) => run.stderr.clone(),
    }
}

/// Command lines beside those of every operation.
const MORE_LINES: [&str; 9] = [
    "emails send --from a@b.test --to c@d.test --subject s --text t --wait --timeout 300ms",
    "emails get x --wait --timeout 300ms",
    "contacts list x --all --timeout 300ms",
    "api GET /api/v1/audiences --all --timeout 300ms",
    "api POST /api/v1/emails --data {}",
    "doctor",
    "whoami",
    "login --key-file key",
    "login --service extraction --key-file key",
];

/// Responses in which every text is hostile.
fn hostile_responses() -> Vec<(u16, Value)> {
    let record = json!({"kind": "mx", "type": "MX", "name": ID, "value": ID});
    let resource = json!({
        "id": ID, "name": ID, "email": ID, "url": ID, "status": ID, "to": [ID], "subject": ID,
        "events": [ID], "event": ID, "active": false, "signingSecret": ID, "scopes": [ID],
        "verified": false, "mx_verified": false, "records": [record], "dns_records": [record],
        "organization": {"id": ID, "name": ID}, "apiKey": {"id": ID, "name": ID, "scopes": [ID]},
        "deliveryStatus": ID, "error": null, "audienceId": ID, "metadata": {ID: ID},
    });
    let mut queued = resource.clone();
    queued["status"] = "queued".into();
    let error = json!({"error": {"code": ID, "message": ID, "requestId": ID,
        "fields": [{"field": ID, "message": ID}], "required": ID, "requiredScope": ID}});
    let mut responses = vec![
        (200, resource.clone()),
        (202, queued),
        (200, json!([resource])),
        (
            200,
            json!({"data": [resource], "total": 1, "page": 1, "next": ID}),
        ),
        (200, json!({"success": false, "error": ID})),
    ];
    responses
        .extend([400, 401, 403, 404, 409, 422, 429, 500].map(|status| (status, error.clone())));
    responses
}

#[test]
fn what_a_service_responds_is_one_quoted_word_of_a_hint() {
    let lines = every_command::LINES.into_iter().chain(MORE_LINES);
    let lines = lines.collect::<Vec<_>>();
    let check = |number: usize, line: &str| {
        let mut pasted = 0;
        for (index, (status, body)) in hostile_responses().into_iter().enumerate() {
            if !is_everything() && !(number + index).is_multiple_of(3) {
                continue;
            }
            let service = Service::always(status, &body.to_string());
            let formats: &[&str] = if is_everything() {
                &["table", "json"]
            } else if index.is_multiple_of(2) {
                &["table"]
            } else {
                &["json"]
            };
            for format in formats {
                let home = every_command::home();
                home.file("key", "mk_test_abcdef123");
                // An id of the service that a person has copied, too.
                let words = line.split(' ');
                let args = words.map(|word| if word == "x" { ID } else { word });
                let args = args
                    .chain(["-o", format, "--retries", "0"])
                    .collect::<Vec<_>>();
                let run = run(&home, &service, &args);
                // Further lines of a value are indented below its name.
                let mut lines = run
                    .stderr
                    .lines()
                    .map(str::trim_start)
                    .chain(run.stdout.lines());
                let is_forged = lines.any(|line| line.starts_with("FORGED"));
                assert!(!is_forged, "{status} {args:?}: {run:?}");
                let escapes = ['\u{1b}', '\u{202e}', '\r'];
                let shown = [&run.stderr, &run.stdout];
                assert!(
                    !shown.iter().any(|text| text.contains(escapes)),
                    "{status} {args:?}: {run:?}"
                );
                pasted += paste(&home, &args, &hint_of(&run));
            }
        }
        pasted
    };

    let pasted = std::thread::scope(|scope| {
        let lines = lines.iter().enumerate().collect::<Vec<_>>();
        let parts = lines.chunks(lines.len().div_ceil(4)).map(<[_]>::to_vec);
        let check_all = |part: Vec<(usize, &&str)>| {
            let counts = part.into_iter().map(|(number, line)| check(number, line));
            counts.sum::<usize>()
        };
        let threads = parts.map(|part| scope.spawn(move || check_all(part)));
        let threads = threads.collect::<Vec<_>>();
        let counts = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        counts.sum::<usize>()
    });
    assert!(pasted > 40, "only {pasted} commands were suggested");
}

#[test]
fn the_key_of_the_run_is_masked_wherever_a_service_repeats_it() {
    for key in ["a-key/of\"another\"form-0123", "k0123", "q7Z"] {
        check_masked(key);
    }
}

fn check_masked(key: &str) {
    let body =
        json!({"id": "eml_1", "status": "sent", "note": key, "list": [format!("x-{key}-y")]});
    let headers = format!("content-type: application/json\r\nx-echo: {key}\r\n");
    let long = json!({"error": {"message": format!("{} {key}", "x".repeat(4080)), "code": key}});
    for (status, body) in [
        (200, body.to_string()),
        (400, long.to_string()),
        (400, key.to_owned()),
    ] {
        let service = Service::with_responses(&[http_response(status, &headers, &body)]);
        let home = Home::new();
        let url = service.url();
        let env = [("SVC_EMAIL_URL", url.as_str()), ("SVC_EMAIL_KEY", key)];
        for format in ["json", "table"] {
            let run = home.run_with_env(
                &[
                    "emails",
                    "get",
                    "eml_1",
                    "-vv",
                    "-o",
                    format,
                    "--retries",
                    "0",
                ],
                &env,
            );
            let tail = &key[key.len().saturating_sub(9)..];
            assert!(!run.stderr.contains(tail), "{run:?}");
            assert!(!run.stderr.is_empty());
        }
    }
}

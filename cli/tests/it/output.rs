//! Output formats, filters and colors.

use std::io::{BufRead as _, BufReader, Read as _};

use crate::support::{Home, Run, Service, Watchdog, http_response};

const LIST: &str =
    r#"[{"id":"aud_1","name":"One","extra":1},{"id":"aud_2","name":"T\u001b[2Jwo"}]"#;

fn list(args: &[&str], env: &[(&str, &str)]) -> Run {
    let service = Service::always(200, LIST);
    let url = service.url();
    let all = [
        &[
            ("SVC_EMAIL_KEY", "mk_test_x"),
            ("SVC_EMAIL_URL", url.as_str()),
        ],
        env,
    ]
    .concat();
    Home::new().run_with_env(&[&["audiences", "list"], args].concat(), &all)
}

#[test]
fn each_format() {
    assert_eq!(
        list(&[], &[]).json(),
        serde_json::from_str::<serde_json::Value>(LIST).expect("JSON")
    );
    assert_eq!(
        list(&["-o", "ndjson"], &[]).stdout,
        "{\"id\":\"aud_1\",\"name\":\"One\",\"extra\":1}\n{\"id\":\"aud_2\",\"name\":\"T\\u001b[2Jwo\"}\n"
    );
    assert_eq!(
        list(&["-o", "table"], &[]).stdout,
        "ID     NAME\naud_1  One\naud_2  T\\u{1b}[2Jwo\n"
    );
    assert_eq!(
        list(&[], &[("SVC_OUTPUT", "table")]).stdout,
        list(&["-o", "table"], &[]).stdout
    );
}

#[test]
fn jq_filters_and_prints_bare_strings() {
    assert_eq!(list(&["--jq", ".[0].id"], &[]).stdout, "aud_1\n");
    assert_eq!(list(&["--jq", "map(.extra)[0]"], &[]).stdout, "1\n");
    assert_eq!(
        list(&["-o", "ndjson", "--jq", ".id"], &[]).stdout,
        "aud_1\naud_2\n"
    );
    assert_eq!(list(&["--jq", "empty"], &[]).stdout, "");
}

#[test]
fn colors_need_a_terminal_or_an_explicit_setting() {
    let colored = |args: &[&str], env: &[(&str, &str)]| {
        list(&[&["-o", "table"], args].concat(), env)
            .stdout
            .contains("\u{1b}[")
    };

    assert!(!colored(&[], &[]));
    assert!(colored(&["--color", "always"], &[("NO_COLOR", "1")]));
    assert!(colored(&[], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
}

#[test]
fn an_empty_list_is_an_empty_list() {
    let service = Service::always(200, r#"{"data":[]}"#);
    let home = Home::new();
    let url = service.url();
    let env = [
        ("SVC_EMAIL_KEY", "mk_test_x"),
        ("SVC_EMAIL_URL", url.as_str()),
    ];
    let json = home.run_with_env(&["audiences", "list"], &env);
    assert_eq!(
        (json.code, json.stdout.as_str(), json.stderr.as_str()),
        (0, "[]\n", "")
    );

    let table = home.run_with_env(&["-o", "table", "audiences", "list"], &env);
    assert_eq!((table.code, table.stdout.as_str()), (0, ""));
    assert!(
        table.stderr.starts_with("no audiences; create one: "),
        "{table:?}"
    );

    let quiet = home.run_with_env(&["-q", "-o", "table", "audiences", "list"], &env);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
}

#[test]
fn verbose_prints_requests_on_standard_error() {
    let run = list(&["-v"], &[]);
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("> GET http://127.0.0.1:"), "{run:?}");
    assert!(
        run.stderr.contains("/api/v1/audiences\n< 200 in "),
        "{run:?}"
    );
    assert!(run.stderr.contains("req_1"), "{run:?}");
    assert!(run.json().is_array());
}

#[test]
fn twice_verbose_prints_headers_and_bodies_without_secrets() {
    let response = r#"{"id":"whk_1","signingSecret":"hidden-1","note":"whsec_hidden2"}"#;
    let service = Service::with_responses(&[
        http_response(201, "set-cookie: hidden-3\r\n", response),
        http_response(502, "", "<p>mk_live_hidden4</p>\nbad gateway"),
        http_response(201, "", r#"{"id":"whk_2","secret":"hidden-5"#),
    ]);
    let url = service.url();
    let env = [
        ("SVC_EMAIL_KEY", "mk_test_hidden6"),
        ("SVC_EMAIL_URL", url.as_str()),
    ];
    let home = Home::new();
    let long = "é".repeat(3000);
    let post = |level: &str, body: &str| {
        let args = [
            level,
            "--retries",
            "0",
            "api",
            "POST",
            "/api/v1/webhooks",
            "--data",
            body,
        ];
        home.run_with_env(&args, &env).stderr
    };

    let body =
        format!(r#"{{"url":"https://a.test/","user":{{"password":"hidden-7"}},"x":"{long}"}}"#);
    let log = post("-vv", &body);
    let (request, response) = log.split_once("\n< 201 in ").expect("a response");
    assert!(
        request.contains("\n> authorization: Bearer ***\n> content-length: "),
        "{log}"
    );

    let shown = r#"> {"url":"https://a.test/","user":{"password":"***"},"x":"é"#;
    let (_, content) = request.split_once(shown).expect("a body");
    let (content, end) = content.split_once('\n').expect("a cut");
    assert!((1990..2048).contains(&content.chars().count()), "{log}");
    assert_eq!(end, format!("> … ({} bytes in all)", body.len()));
    assert!(response.contains("\n< set-cookie: ***\n"), "{log}");

    let shown = r#"< {"id":"whk_1","signingSecret":"***","note":"whsec_…"}"#;
    assert!(response.contains(shown), "{log}");

    let failed = post("-vv", "{}");
    assert!(
        failed.contains("\n< <p>mk_live_…>\n< bad gateway\n"),
        "{failed}"
    );

    let cut = post("-vv", "{}");
    assert!(cut.contains("\n< (32 bytes, not valid JSON)\n"), "{cut}");
    assert!(![log, failed, cut].concat().contains("hidden"));
    assert!(!post("-v", "{}").contains("content-length"));
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let home = Home::new();
    let mut child = home.spawn(&["schema"]);
    let _watchdog = Watchdog::start(&child);
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut stderr)
        .expect("UTF-8");
    assert_eq!(
        (child.wait().expect("ends").code(), stderr.as_str()),
        (Some(0), "")
    );
}

/// A script that prints no result still learns that an email was refused.
#[test]
fn a_closed_pipe_does_not_hide_a_failure() {
    let home = Home::new();
    let email = |from: &str| {
        format!(r#"{{"from":"{from}","to":"ada@example.test","subject":"s","text":"t"}}"#)
    };
    let emails = format!(
        "{}\n{}\n",
        email("hello@sandbox.test"),
        email("a@elsewhere.test")
    );
    let file = home.file("partly.ndjson", emails);
    let mut child = home.spawn(&["--sandbox", "emails", "batch", &file]);
    let _watchdog = Watchdog::start(&child);
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("ends").code(), Some(11));
}

#[test]
fn scripts_and_man_pages_are_printed_verbatim() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish", "nushell"] {
        let run = home.run(&["completions", shell]);
        assert_eq!(run.code, 0, "{shell}: {run:?}");
        assert!(
            run.stdout.contains("svc") && !run.stdout.starts_with('{'),
            "{shell}"
        );
    }

    let page = home.run(&["man"]).stdout;
    assert!(page.contains(".TH svc 1 "), "{page}");
    assert!(
        home.run(&["completions", "fish", "--json"])
            .json()
            .is_string()
    );

    // Only an option makes a record of a text.
    for args in [&["completions", "fish"][..], &["help", "emails"], &["man"]] {
        let text = home.run(args).stdout;
        for format in ["json", "csv", "ndjson"] {
            assert_eq!(
                home.run_with_env(args, &[("SVC_OUTPUT", format)]).stdout,
                text,
                "{args:?}"
            );
        }
    }

    let dir = home.path("man");
    let run = home.run(&["man", &dir.display().to_string()]);
    assert_eq!(run.code, 0, "{run:?}");

    let page = std::fs::read_to_string(dir.join("svc-emails-send.1")).expect("a page");
    assert!(page.contains("svc\\-emails\\-send"), "{page}");
    // The hyphens of examples can be copied.
    assert!(
        page.contains("\n  svc emails send \\-\\-from hello@example.com "),
        "{page}"
    );

    for entry in std::fs::read_dir(&dir).expect("a directory") {
        let page = std::fs::read_to_string(entry.expect("an entry").path()).expect("a page");
        for option in page.split("\n.TP\n").skip(1) {
            let mut lines = option.lines();
            let name = lines.next().expect("a name");
            assert!(
                lines.next().is_some_and(|text| !text.is_empty()),
                "{name} has no description"
            );
        }
    }
}

#[test]
fn the_schema_describes_every_command() {
    let home = Home::new();
    let all = home.run(&["schema"]).json();
    let names = all
        .as_array()
        .expect("a list")
        .iter()
        .map(|c| c["command"].as_str().expect("one"));
    let leaves = svc_cli::commands().into_iter().map(|leaf| leaf.path);
    assert!(names.eq(leaves));

    let one = home.run(&["schema", "emails", "send"]).json();
    assert_eq!(one["operations"][0]["scope"], "emails:send");
    assert_eq!(one["input"]["properties"]["--to"]["type"], "array");
    assert_eq!(
        one["exit_codes"]["9"],
        "outcome unknown: the request may have been processed, an email of svc bulk may have been accepted, or --wait ended before the email's final status"
    );
    assert_eq!(home.run(&["schema", "emails", "snd"]).code, 2);
}

#[test]
fn filters_apply_to_the_whole_list_or_to_each_ndjson_line() {
    let service = Service::always(200, r#"[{"id":"a","n":1},{"id":"b","n":2}]"#);
    let url = service.url();
    let env = [
        ("SVC_EMAIL_KEY", "mk_test_x"),
        ("SVC_EMAIL_URL", url.as_str()),
    ];
    for (args, printed) in [
        (&["--jq", "length"][..], "2\n"),
        (&["--jq", ".[].id"], "a\nb\n"),
        (&["--jq", "map(.n) | add", "--json"], "3\n"),
        (&["-o", "ndjson", "--jq", ".id"], "a\nb\n"),
        (&["-o", "ndjson", "--jq", "{n}"], "{\"n\":1}\n{\"n\":2}\n"),
        (&["-o", "csv", "--jq", ".[]|{n}"], "n\n1\n2\n"),
        (&["--json", "-o", "ndjson", "-o", "csv"], "id,n\na,1\nb,2\n"),
        (
            &["-o", "csv", "--json", "--jq", ".[0]|{n}"],
            "{\n  \"n\": 1\n}\n",
        ),
    ] {
        let run = Home::new().run_with_env(&[&["audiences", "list"], args].concat(), &env);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (0, printed),
            "{args:?}: {run:?}"
        );
    }
}

#[test]
fn csv_has_the_rows_of_the_table() {
    let checks = r#"[{"kind":"mx","verified":true},{"kind":"spf","verified":false}]"#;
    let service = Service::always(200, &format!(r#"{{"id":"dom_1","checks":{checks}}}"#));
    let url = service.url();
    let env = [
        ("SVC_EMAIL_KEY", "mk_test_x"),
        ("SVC_EMAIL_URL", url.as_str()),
    ];
    let id = "dom_019a0b1c-0000-7000-8000-000000000000";
    let run = Home::new().run_with_env(&["domains", "verify", id, "-o", "csv"], &env);
    assert_eq!(
        (run.code, &*run.stdout),
        (10, "kind,verified\nmx,true\nspf,false\n"),
        "{run:?}"
    );
}

#[test]
fn a_filter_error_after_the_request_is_not_a_usage_error() {
    let run = list(&["--jq", ".data"], &[]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:?}");
    assert_eq!(
        run.stderr,
        "{\"error\":{\"kind\":\"other\",\"code\":\"filter_failed\",\"message\":\"--jq: the result is a list; filter its items: '.[] | …'\",\"hint\":\"the command itself has completed: check before repeating it\\nfor values of varying type, use ()?: (.error.message)? // \\\"none\\\"\"}}\n"
    );
}

/// A service with two pages of one contact each. It sends the second page after `proceed`.
struct Pages {
    url: String,
    proceed: std::sync::mpsc::Sender<()>,
    served: std::thread::JoinHandle<bool>,
}

impl Pages {
    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (proceed, proceeds) = std::sync::mpsc::channel();
        let served = std::thread::spawn(move || {
            let mut was_released = false;
            for page in 1..=2 {
                if page == 2 {
                    // `svc` prints the first line long before this timeout.
                    was_released = proceeds
                        .recv_timeout(std::time::Duration::from_secs(60))
                        .is_ok();
                }
                let mut stream = crate::support::accept(&listener);
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    std::io::Read::read_exact(&mut stream, &mut byte).expect("a head");
                    head.extend(byte);
                }
                let body = format!(
                    r#"{{"data":[{{"id":"con_{page}","metadata":{{}},"topics":[]}}],"page":{page},"pageSize":1,"total":2,"totalPages":2}}"#
                );
                let response = http_response(200, "", &body);
                std::io::Write::write_all(&mut stream, response.as_bytes()).expect("sent");
            }
            was_released
        });
        Self {
            url,
            proceed,
            served,
        }
    }
}

#[test]
fn ndjson_lines_are_written_page_by_page() {
    for line in [
        "contacts list aud_019a0b1c-0000-7000-8000-000000000001 --all -o ndjson",
        "api GET /api/v1/audiences/aud_019a0b1c-0000-7000-8000-000000000001/contacts --all -o ndjson",
        "contacts list aud_019a0b1c-0000-7000-8000-000000000001 --all -o ndjson --jq .",
    ] {
        let pages = Pages::start();
        let home = Home::new();
        let mut child = home
            .command(&line.split(' ').collect::<Vec<_>>())
            .envs([
                ("SVC_EMAIL_URL", pages.url.as_str()),
                ("SVC_EMAIL_KEY", "mk_test_x"),
            ])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("svc starts");
        let _watchdog = Watchdog::start(&child);
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        let mut text = String::new();
        std::io::BufRead::read_line(&mut stdout, &mut text).expect("a line");
        let contact = |page| format!("{{\"id\":\"con_{page}\",\"metadata\":{{}},\"topics\":[]}}\n");
        assert_eq!(text, contact(1), "{line}");
        pages.proceed.send(()).expect("the service waits");
        std::io::Read::read_to_string(&mut stdout, &mut text).expect("the rest");
        assert_eq!(text, contact(1) + &contact(2), "{line}");
        assert_eq!(child.wait().expect("ends").code(), Some(0), "{line}");
        assert!(
            pages.served.join().expect("served"),
            "{line}: the first page was printed only at the end"
        );
    }
}

/// Warnings and notes reach the user in every format; `--quiet` leaves out the notes.
#[test]
fn warnings_and_notes_are_printed_in_every_format() {
    let home = Home::new();
    home.file("config/svc/config.toml", "nonsense = 1\n");
    let send = [
        "--dry-run",
        "emails",
        "send",
        "--from",
        "a@b.test",
        "--to",
        "c@d.test",
    ];
    let send = [
        &send[..],
        &["--subject", "Hi", "--text", "x", "--at", "now"],
    ]
    .concat();
    for format in ["table", "json", "ndjson"] {
        let run = home.run(&["config", "show", "-o", format]);
        assert_eq!(
            (run.code, run.stderr.as_str()),
            (
                0,
                "warning: `nonsense` in config.toml is unknown and has no effect\n"
            )
        );
        let env = [
            ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
            ("SVC_EMAIL_KEY", "mk_test_x"),
        ];
        let run = home.run_with_env(&[&send[..], &["-o", format]].concat(), &env);
        assert!(run.stderr.contains("sending now: "), "{run:?}");
        let run = home.run_with_env(&[&send[..], &["-o", format, "--quiet"]].concat(), &env);
        let warning = "warning: `nonsense` in config.toml is unknown and has no effect\n";
        assert_eq!((run.code, run.stderr.as_str()), (0, warning));
    }
}

/// jq has filters without an end.
#[cfg(unix)]
#[test]
fn an_endless_filter_is_written_as_it_goes_and_ends_at_an_interruption() {
    let home = Home::new();
    let mut command = home.command(&["version", "--json", "--jq", "range(infinite)"]);
    let mut running = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    let watchdog = Watchdog::start(&running);
    let mut lines = BufReader::new(running.stdout.take().expect("piped")).lines();
    let last = lines.nth(500_000).expect("a line").expect("text");
    assert_eq!(last, "500000");

    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string(format!("/proc/{}/status", running.id()));
        let status = status.expect("a status");
        let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = peak.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        assert!(kib.is_some_and(|kib| kib < 100_000), "{peak:?}");
    }
    let pid = running.id().to_string();
    let kill = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status();
    assert!(kill.expect("kill runs").success());

    for line in lines {
        line.expect("text");
    }

    let ended = running.wait().expect("ends");
    drop(watchdog);
    assert_eq!(ended.code(), Some(130));
}

//! `svc` on a terminal with 80 columns.

use std::io::{Read as _, Write as _};

use crate::pty::{Terminal, TerminalOutput};
use crate::support::{Home, Service, accept, http_response};

/// Runs with all three streams on a terminal, and types this text.
fn on_terminal(
    home: &Home,
    args: &[&str],
    env: &[(&str, &str)],
    typed: Option<&str>,
) -> TerminalOutput {
    let mut terminal = Terminal::start(home, args, env, 80);
    if let Some(typed) = typed {
        terminal.write(typed);
    }
    terminal.end()
}

fn with_service(service: &Service, args: &[&str], typed: Option<&str>) -> TerminalOutput {
    let url = service.url();
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    on_terminal(&Home::new(), args, &env, typed)
}

#[test]
fn tables_are_colored_and_fit() {
    let long = "A name that goes on and on, far beyond what a terminal of eighty columns can show";
    let id = "aud_01a1fd75-b965-7772-a397-95b85f868b54";
    let created = "2026-12-01T09:00:00Z";
    let body = format!(r#"[{{"id":"{id}","name":"{long}","createdAt":"{created}"}}]"#);
    let service = Service::always(200, &body);
    let seen = with_service(&service, &["audiences", "list"], None);
    assert_eq!(seen.code, 0);
    assert!(
        seen.text.contains("aud_01a1…8b54") && seen.text.contains("A name that"),
        "{}",
        seen.text
    );
    assert!(seen.text.contains("…  2026-12-01 "), "{}", seen.text);

    let wide = with_service(&service, &["audiences", "list", "--wide"], None);
    assert!(wide.text.contains(long), "{}", wide.text);
    assert!(seen.text.starts_with("\u{1b}[1mID"), "{:?}", seen.text);

    let plain = seen.text.replace("\u{1b}[1m", "").replace("\u{1b}[22m", "");
    assert!(
        plain.lines().all(|line| line.chars().count() <= 80),
        "{plain}"
    );
}

#[test]
fn columns_that_do_not_fit_are_counted() {
    let body = r#"[{"id":"con_01a1fd75-b965-7772-a397-95b85f868b54","email":"ada.lovelace@analytical.example.test",
        "name":"Ada Augusta King, Countess of Lovelace","subscribed":true,"topics":["news"],"metadata":{"plan":"pro"}}]"#;
    let service = Service::always(200, body);
    let seen = with_service(&service, &["contacts", "list", "aud_1"], None);
    assert!(!seen.text.contains("TOPICS"), "{}", seen.text);

    let note = "2 columns are not shown, IDs are shortened; use --wide or --json";
    assert_eq!(seen.text.matches(note).count(), 1, "{}", seen.text);

    let wide = with_service(&service, &["contacts", "list", "aud_1", "--wide"], None);
    assert!(
        wide.text.contains("plan=pro") && !wide.text.contains("not shown"),
        "{}",
        wide.text
    );
}

/// Asserts that the output contains no control characters except line ends and bold text.
fn assert_harmless(seen: &TerminalOutput, args: &[&str]) {
    let plain = seen.text.replace("\u{1b}[1m", "").replace("\u{1b}[22m", "");
    let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!plain.contains(bad), "{args:?}: {plain:?}");
    assert!(plain.contains("owned"), "{args:?}: {plain:?}");
}

#[test]
fn control_characters_in_responses_are_escaped() {
    let body =
        r#"{"id":"aud_1","name":"\u001b]0;owned\u0007\u001b[2J\u007f","x\u009b31m":"\u202e"}"#;
    let service = Service::always(200, body);
    for args in [
        &[
            "audiences",
            "get",
            "aud_019a0b1c-0000-7000-8000-000000000001",
        ][..],
        &[
            "audiences",
            "get",
            "aud_019a0b1c-0000-7000-8000-000000000001",
            "--json",
        ],
        &[
            "audiences",
            "get",
            "aud_019a0b1c-0000-7000-8000-000000000001",
            "--jq",
            ".name",
        ],
    ] {
        let seen = with_service(&service, args, None);
        assert_harmless(&seen, args);
    }

    let text = Service::always(200, "\u{1b}]0;owned\u{7}\u{1b}[2J\u{7f}\r\u{202e}");
    let args = ["api", "GET", "/anything"];
    assert_harmless(&with_service(&text, &args, None), &args);

    let refused = Service::always(422, r#"{"error":{"code":"x","message":"\u001b[2Jno"}}"#);
    let seen = with_service(&refused, &["--color", "never", "audiences", "list"], None);
    assert!(!seen.text.contains('\u{1b}'), "{:?}", seen.text);
}

#[test]
fn errors_take_at_most_five_lines() {
    let service = Service::always(
        403,
        r#"{"error":{"code":"insufficient_scope","message":"no"}}"#,
    );
    let seen = with_service(&service, &["audiences", "list"], None);
    assert_eq!(seen.code, 4);
    assert!(
        seen.text
            .starts_with("\u{1b}[1;31merror:\u{1b}[0m the API key lacks the scope contacts:manage")
    );
    assert!(seen.text.lines().count() <= 5, "{}", seen.text);
}

#[test]
fn dangerous_commands_ask_for_confirmation() {
    let list = http_response(200, "", r#"[{"id":"aud_1","name":"News"}]"#);
    let gone = http_response(204, "", "");
    let service = Service::with_responses(&[
        list.clone(),
        list.clone(),
        gone.clone(),
        list.clone(),
        gone,
        list,
    ]);
    let args = ["audiences", "delete", "aud_1"];
    let no = with_service(&service, &args, Some("\n"));
    assert_eq!(no.code, 2, "{}", no.text);

    let question = "Delete audience News (aud_1) and all contacts in it? [y/N]";
    assert!(no.text.contains(question), "{}", no.text);
    assert_eq!(service.requests().len(), 1);

    let yes = with_service(&service, &args, Some("y\n"));
    assert_eq!(yes.code, 0, "{}", yes.text);
    assert!(
        yes.text.ends_with("deleted audience News (aud_1)\n"),
        "{}",
        yes.text
    );
    assert_eq!(service.requests().len(), 3);
    assert_eq!(with_service(&service, &args, Some("Yes\n")).code, 0);
    assert_eq!(
        with_service(&service, &args, Some("yesterday\nno\n")).code,
        2
    );
    assert_eq!(service.requests().len(), 6);
}

#[test]
fn slow_requests_show_a_spinner_that_is_cleared() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let args = ["audiences", "list", "--timeout", "10m"];
    let mut terminal = Terminal::start(&Home::new(), &args, &env, 80);
    let mut stream = accept(&listener);
    // Respond only after the spinner has appeared.
    terminal.until("⠋ reading");
    let _ = stream.read(&mut [0; 4096]);
    stream
        .write_all(http_response(200, "", "[]").as_bytes())
        .expect("sent");
    drop(stream);
    let seen = terminal.end();
    assert_eq!(seen.code, 0, "{}", seen.raw);

    let after = seen.raw.rsplit("\r\u{1b}[2K").next().expect("cleared");
    assert!(
        after.starts_with("no audiences; create one: "),
        "{:?}",
        seen.raw
    );
}

#[test]
fn first_use_without_configuration() {
    let home = Home::new();
    let seen = on_terminal(&home, &["emails", "get", "x"], &[("NO_COLOR", "1")], None);
    assert_eq!(seen.code, 3);
    assert_eq!(
        seen.text,
        "error: the email service is not set up: no base URL and no key\n  \
         try it on this machine: svc --sandbox emails get x\n  set it up: svc login --service email\n"
    );

    let args = [
        "--sandbox",
        "emails",
        "send",
        "--from",
        "hello@sandbox.test",
        "--to",
        "ada@example.test",
        "--subject",
        "Hi",
        "--text",
        "Hello",
        "--wait",
    ];
    let sent = on_terminal(&home, &args, &[("NO_COLOR", "1")], None);
    assert_eq!(sent.code, 0, "{}", sent.text);
    assert!(
        sent.text.contains("Status      delivered\n"),
        "{}",
        sent.text
    );
    assert!(
        sent.text.contains(": queued\n") && sent.text.contains(": delivered\n"),
        "{}",
        sent.text
    );
}

#[test]
fn dumb_terminals_get_plain_text() {
    let service = Service::always(200, r#"[{"id":"aud_1","name":"x"}]"#);
    let url = service.url();
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
        ("TERM", "dumb"),
    ];
    for args in [
        &["audiences", "list"][..],
        &["audiences", "get", ""],
        &["--help"],
        &["nothing"],
    ] {
        let seen = on_terminal(&Home::new(), args, &env, None);
        assert!(!seen.text.contains('\u{1b}'), "{args:?}: {:?}", seen.text);
    }
}

#[test]
fn sandbox_serve_greets_and_says_for_whom_a_request_was_and_why_it_was_refused() {
    let home = Home::new();
    let args = ["sandbox", "serve", "--port", "0"];
    let mut terminal = Terminal::start(&home, &args, &[("NO_COLOR", "1")], 80);
    terminal.until("press Ctrl-C to stop");
    for part in [
        "  Page   http://127.0.0.1:",
        "  API    http://127.0.0.1:",
        "  SMTP   127.0.0.1:",
        "  Keys   mk_test_sandbox (email), sk_test_sandbox (extraction)",
        "  Data   /",
        "svc --sandbox emails send --from hello@sandbox.test \\",
    ] {
        terminal.until(part);
    }

    let send = |from: &str| {
        let send = ["--sandbox", "emails", "send", "--from", from];
        let rest = ["--to", "ada@b.test", "--subject", "Hi", "--text", "Hello"];
        home.run(&[&send[..], &rest].concat()).code
    };

    assert_eq!(send("hello@sandbox.test"), 0);

    terminal.until("  202  emails.send ada@b.test (");
    assert_eq!(send("hello@x.test"), 6);

    terminal.until("  403  emails.send hello@x.test: ");
    assert_eq!(home.run(&["--sandbox", "audiences", "list"]).code, 0);

    terminal.until("  200  audiences.list GET /api/v1/audiences (");
    terminal.write("\u{3}");
    assert_eq!(terminal.end().code, 0);
}

//! `svc` on a terminal: a pseudo-terminal of 80 columns.

use std::io::{Read as _, Write as _};

use crate::pty::{Seen, Terminal};
use crate::support::{Home, Service, answer};

/// Runs with all three streams on a terminal; `answer` is typed when a question
/// has been asked.
fn on_terminal(home: &Home, args: &[&str], env: &[(&str, &str)], typed: Option<&str>) -> Seen {
    let mut terminal = Terminal::start(home, args, env, 80);
    if let Some(typed) = typed {
        terminal.write(typed);
    }
    terminal.end()
}

fn with_service(service: &Service, args: &[&str], typed: Option<&str>) -> Seen {
    let url = service.url();
    let env = [("SVC_EMAIL_URL", url.as_str()), ("SVC_EMAIL_KEY", "mk_test_x")];
    on_terminal(&Home::new(), args, &env, typed)
}

#[test]
fn a_table_in_colours_that_fits() {
    let long = "A name that goes on and on, far beyond what a terminal of eighty columns can show";
    let service = Service::one(200, &format!(r#"[{{"id":"aud_1","name":"{long}"}}]"#));
    let seen = with_service(&service, &["audiences", "list"], None);
    assert_eq!(seen.code, 0);
    assert!(seen.raw.starts_with("\u{1b}[1mID"), "{:?}", seen.raw);
    let plain = seen.raw.replace("\u{1b}[1m", "").replace("\u{1b}[22m", "");
    assert!(plain.lines().all(|line| line.chars().count() <= 80), "{plain}");
    assert!(plain.lines().count() >= 3, "wrapped, not cut: {plain}");
}

/// Nothing but text, line ends and our own bold letters.
fn assert_harmless(seen: &Seen, args: &[&str]) {
    let plain = seen.raw.replace("\u{1b}[1m", "").replace("\u{1b}[22m", "");
    let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!plain.contains(bad), "{args:?}: {plain:?}");
    assert!(plain.contains("owned"), "{args:?}: {plain:?}");
}

#[test]
fn remote_control_characters_never_reach_it() {
    let body =
        r#"{"id":"aud_1","name":"\u001b]0;owned\u0007\u001b[2J\u007f","x\u009b31m":"\u202e"}"#;
    let service = Service::one(200, body);
    for args in [
        &["audiences", "get", "aud_1"][..],
        &["audiences", "get", "aud_1", "--json"],
        &["audiences", "get", "aud_1", "--jq", ".name"],
        &["audiences", "get", "x", "-o", "yaml"],
    ] {
        let seen = with_service(&service, args, None);
        assert_harmless(&seen, args);
    }
    let text = Service::one(200, "\u{1b}]0;owned\u{7}\u{1b}[2J\u{7f}\r\u{202e}");
    let args = ["api", "GET", "/anything"];
    assert_harmless(&with_service(&text, &args, None), &args);
    let refused = Service::one(422, r#"{"error":{"code":"x","message":"\u001b[2Jno"}}"#);
    let seen = with_service(&refused, &["--color", "never", "audiences", "list"], None);
    assert!(!seen.raw.contains('\u{1b}'), "{:?}", seen.raw);
}

#[test]
fn an_error_is_words_in_at_most_five_lines() {
    let service = Service::one(403, r#"{"error":{"code":"insufficient_scope","message":"no"}}"#);
    let seen = with_service(&service, &["audiences", "list"], None);
    assert_eq!(seen.code, 4);
    assert!(
        seen.raw.starts_with("\u{1b}[1;31merror:\u{1b}[0m the key lacks the scope contacts:manage")
    );
    assert!(seen.raw.lines().count() <= 5, "{}", seen.raw);
}

#[test]
fn a_dangerous_command_asks_and_takes_no_for_an_answer() {
    let service = Service::answering(&[answer(204, "", "")]);
    let args = ["audiences", "delete", "aud_1"];
    let no = with_service(&service, &args, Some("\n"));
    assert_eq!(no.code, 2, "{}", no.raw);
    assert!(no.raw.contains("Delete audience aud_1 and all contacts in it? [y/N]"), "{}", no.raw);
    assert!(service.requests().is_empty());
    let yes = with_service(&service, &args, Some("y\n"));
    assert_eq!(yes.code, 0, "{}", yes.raw);
    assert!(yes.raw.ends_with("deleted audience aud_1\n"), "{}", yes.raw);
    assert_eq!(service.requests().len(), 1);
    assert_eq!(with_service(&service, &args, Some("Yes\n")).code, 0);
    assert_eq!(with_service(&service, &args, Some("yesterday\n")).code, 2);
    assert_eq!(service.requests().len(), 2);
}

#[test]
fn what_takes_long_shows_a_sign_of_life_and_clears_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let env = [("SVC_EMAIL_URL", url.as_str()), ("SVC_EMAIL_KEY", "mk_test_x")];
    let args = ["audiences", "list", "--timeout", "10m"];
    let mut terminal = Terminal::start(&Home::new(), &args, &env, 80);
    let (mut stream, _) = listener.accept().expect("it comes");
    // No answer before the sign has been shown.
    terminal.until("⠋ reading");
    let _ = stream.read(&mut [0; 4096]);
    stream.write_all(answer(200, "", "[]").as_bytes()).expect("answered");
    drop(stream);
    let seen = terminal.end();
    assert_eq!(seen.code, 0, "{}", seen.raw);
    let after = seen.raw.rsplit("\r\u{1b}[2K").next().expect("cleared");
    assert!(after.starts_with("no audiences; create one: "), "{:?}", seen.raw);
}

#[test]
fn first_use_in_an_empty_home() {
    let home = Home::new();
    let seen = on_terminal(&home, &["emails", "get", "x"], &[("NO_COLOR", "1")], None);
    assert_eq!(seen.code, 3);
    assert_eq!(
        seen.raw,
        "error: svc does not know the email service yet: no address and no key\n  \
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
    assert_eq!(sent.code, 0, "{}", sent.raw);
    assert!(sent.raw.contains("Status      delivered\n"), "{}", sent.raw);
    assert!(sent.raw.contains(": queued\n") && sent.raw.contains(": delivered\n"), "{}", sent.raw);
}

#[test]
fn a_dumb_terminal_gets_text_alone() {
    let service = Service::one(200, r#"[{"id":"aud_1","name":"x"}]"#);
    let url = service.url();
    let env = [("SVC_EMAIL_URL", url.as_str()), ("SVC_EMAIL_KEY", "mk_test_x"), ("TERM", "dumb")];
    for args in [&["audiences", "list"][..], &["audiences", "get", ""], &["--help"], &["nothing"]] {
        let seen = on_terminal(&Home::new(), args, &env, None);
        assert!(!seen.raw.contains('\u{1b}'), "{args:?}: {:?}", seen.raw);
    }
}

#[test]
fn a_server_that_runs_says_how_to_try_and_how_to_stop_it() {
    let home = Home::new();
    let args = ["sandbox", "serve", "--addr", "127.0.0.1:0"];
    let mut terminal = Terminal::start(&home, &args, &[("NO_COLOR", "1")], 80);
    terminal.until("press Ctrl-C to stop; try in another terminal: svc --sandbox emails send \\");
    terminal.until("--text Hello");
    terminal.write("\u{3}");
    assert_eq!(terminal.end().code, 0);
}

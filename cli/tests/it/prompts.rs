//! Prompts on a terminal: answers, interruption and end of input.

use crate::pty::Terminal;
use crate::support::{self, Home, Service, http_response};

const QUESTION: &str =
    "Delete audience aud_019a0b1c-0000-7000-8000-000000000001 and all contacts in it? [y/N] ";
const DELETE: [&str; 3] = [
    "audiences",
    "delete",
    "aud_019a0b1c-0000-7000-8000-000000000001",
];
const LOGIN: [&str; 3] = ["login", "--email-url", "http://127.0.0.1:9"];
const HIDDEN: &str = "Key for the email service (hidden): ";

fn asked(service: &Service) -> Terminal {
    let url = service.url();
    let env = [
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
        ("NO_COLOR", "1"),
    ];
    let mut terminal = Terminal::start(&Home::new(), &DELETE, &env, 80);
    terminal.until(QUESTION);
    terminal
}

#[test]
fn a_declined_confirmation_is_an_error_on_its_own_line() {
    let service = Service::with_responses(&[http_response(204, "", "")]);
    // Enter, `no`, and Ctrl-D, after which the cursor stays on the prompt's line.
    for typed in ["\n", "no\n", "\u{4}"] {
        let mut terminal = asked(&service);
        terminal.write(typed);
        let seen = terminal.end();
        assert_eq!(seen.code, 2, "{:?}", seen.text);
        let lines = seen.text.lines().collect::<Vec<_>>();
        assert_eq!(
            lines.last(),
            Some(&"error: not confirmed; nothing was changed"),
            "{lines:?}"
        );
        assert!(lines[0].starts_with(QUESTION.trim_end()), "{lines:?}");
    }
    assert!(
        service
            .requests()
            .iter()
            .all(|request| request.starts_with("GET "))
    );
}

#[test]
fn another_answer_than_yes_or_no_is_asked_for_again() {
    let service = Service::with_responses(&[http_response(204, "", "")]);
    let mut terminal = asked(&service);
    terminal.write("jes\n");
    let refused = terminal.until_after(0, "`jes` is not an answer: type y or n");
    terminal.until_after(refused, QUESTION);
    terminal.write("n\n");
    let seen = terminal.end();
    assert_eq!(seen.code, 2, "{:?}", seen.text);
    assert!(
        service
            .requests()
            .iter()
            .all(|request| request.starts_with("GET "))
    );
}

#[test]
fn ctrl_c_ends_a_prompt() {
    let service = Service::with_responses(&[http_response(204, "", "")]);
    let terminal = asked(&service);
    terminal.signal("-INT");
    let seen = terminal.end();
    assert_eq!(
        (seen.code, seen.text),
        (130, format!("{QUESTION}\ninterrupted\n"))
    );
    assert!(
        service
            .requests()
            .iter()
            .all(|request| request.starts_with("GET "))
    );
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_hidden_prompt_restores_the_terminal() {
    // A supervisor stops svc, or the terminal is closed.
    for (signal, code) in [("-TERM", 143), ("-HUP", 129)] {
        let mut terminal = Terminal::start(&Home::new(), &LOGIN, &[("NO_COLOR", "1")], 80);
        terminal.until(HIDDEN);
        assert!(!terminal.echoes());
        terminal.signal(signal);
        assert_eq!(terminal.wait().code, code);
        assert!(terminal.echoes(), "{signal}");
    }
    for by_key in [true, false] {
        let home = Home::new();
        let mut terminal = Terminal::start(&home, &LOGIN, &[("NO_COLOR", "1")], 80);
        terminal.until(HIDDEN);
        assert!(
            !terminal.echoes(),
            "a key pasted immediately would be visible"
        );
        if by_key {
            terminal.write("mk_test_sec\u{3}");
        } else {
            terminal.signal("-INT");
        }
        let seen = terminal.wait();
        assert_eq!(seen.code, 130, "{:?}", seen.text);
        assert!(seen.text.ends_with("\ninterrupted\n"), "{:?}", seen.text);
        assert!(!seen.text.contains("mk_test"), "{:?}", seen.text);
        assert!(terminal.echoes());
    }
}

#[test]
fn ctrl_c_ends_reading_standard_input() {
    let home = Home::new();
    let send = [
        "emails",
        "send",
        "--from",
        "a@b.test",
        "--to",
        "c@d.test",
        "--subject",
        "s",
    ];
    for sandbox in [&["--sandbox"][..], &[]] {
        let args = [sandbox, &send[..], &["--html", "-"]].concat();
        let mut terminal = Terminal::start(&home, &args, &[], 80);
        terminal.until("end it with Ctrl-D");
        terminal.signal("-INT");
        assert_eq!(terminal.wait().code, -2);
    }
}

#[test]
fn an_empty_answer_to_a_hidden_prompt_changes_nothing() {
    // Enter, and Ctrl-D, after which the cursor stays on the prompt's line.
    for typed in ["\n", "\u{4}"] {
        let home = Home::new();
        let mut terminal = Terminal::start(&home, &LOGIN, &[("NO_COLOR", "1")], 80);
        terminal.until(HIDDEN);
        terminal.write(typed);
        let seen = terminal.end();
        let expected = format!("{HIDDEN}\nerror: no key was entered; nothing was changed\n");
        assert_eq!((seen.code, seen.text), (2, expected));
        assert!(!home.path("config").exists());
    }
}

#[test]
fn login_checks_the_base_url_before_it_asks_for_the_key() {
    let mut terminal = Terminal::start(&Home::new(), &["login"], &[("NO_COLOR", "1")], 80);
    let asked = terminal.until_after(0, "Base URL of the email service: ");
    terminal.write("no host\n");
    let refused = terminal.until_after(asked, "error: the base URL is not a valid URL");
    terminal.until_after(refused, "Base URL of the email service: ");
    // A host name without a scheme.
    terminal.write("mail.invalid\n");
    let asked = terminal.until_after(refused, HIDDEN);
    terminal.write("two words\n");
    let refused = terminal.until_after(asked, "error: the prompt contains an invalid key");
    terminal.until_after(refused, HIDDEN);
    terminal.write("\n");
    assert_eq!(terminal.end().code, 2);
}

#[test]
fn a_loopback_host_without_a_scheme_means_http() {
    let home = Home::new();
    let service = Service::always(200, "[]");
    let mut terminal = Terminal::start(&home, &["login"], &[("NO_COLOR", "1")], 80);
    terminal.until("Base URL of the email service: ");
    terminal.write(&format!(
        "{}\n",
        service.url().trim_start_matches("http://")
    ));
    terminal.until(HIDDEN);
    terminal.write("mk_test_x\n");
    let seen = terminal.end();
    assert_eq!(seen.code, 0, "{:?}", seen.text);
    assert!(
        seen.text.contains(&format!("at {}\n", service.url())),
        "{:?}",
        seen.text
    );
}

/// Accepts a connection and reads the head of a request, without responding.
fn receive_head(listener: &std::net::TcpListener) -> std::net::TcpStream {
    use std::io::Read as _;

    let mut stream = support::accept(listener);
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        request.extend(byte);
    }
    stream
}

#[test]
fn ctrl_c_reports_whether_the_request_may_have_been_processed() {
    let send = "emails send --from a@b.test --to c@d.test --subject s --text t";
    for (line, expected) in [
        (
            send,
            "error: interrupted before the service responded; the request may have been processed\n  \
             check before sending again: the recipient, your webhooks, the service's dashboard\n",
        ),
        (
            "audiences create Ada",
            "error: interrupted before the service responded; the request may have been processed\n  \
             check before retrying: svc audiences list\n",
        ),
        ("audiences list", "interrupted\n"),
    ] {
        let (listener, url) = support::listen();
        let env = [
            ("SVC_EMAIL_URL", url.as_str()),
            ("SVC_EMAIL_KEY", "mk_test_x"),
            ("NO_COLOR", "1"),
        ];
        let args = line.split(' ').collect::<Vec<_>>();
        let mut terminal = Terminal::start(&Home::new(), &args, &env, 100);
        let _open = receive_head(&listener);
        terminal.write("\u{3}");
        let seen = terminal.end();
        assert_eq!(seen.code, 130, "{line}: {:?}", seen.text);
        // After the line with the `^C` that the terminal has echoed.
        assert!(
            seen.text.ends_with(&format!("\n{expected}")),
            "{line}: {:?}",
            seen.raw
        );
    }
}

#[test]
fn a_missing_value_is_named_also_on_a_terminal() {
    let args = ["emails", "send", "--from", "a@b.test"];
    let seen = Terminal::start(&Home::new(), &args, &[("NO_COLOR", "1")], 80).end();
    assert_eq!(seen.code, 2, "{}", seen.text);
    assert!(
        seen.text.contains("--to") && seen.text.contains("--subject"),
        "{}",
        seen.text
    );
}

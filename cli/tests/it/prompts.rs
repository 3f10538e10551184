//! Questions on a terminal, and the many ways not to answer them.

use crate::pty::Terminal;
use crate::support::{Home, Service, answer};

const QUESTION: &str = "Delete audience aud_1 and all contacts in it? [y/N] ";
const DELETE: [&str; 3] = ["audiences", "delete", "aud_1"];
const LOGIN: [&str; 3] = ["login", "--email-url", "http://127.0.0.1:9"];
const HIDDEN: &str = "Key for the email service (hidden): ";

fn asked(service: &Service) -> Terminal {
    let url = service.url();
    let env = [("SVC_EMAIL_URL", url.as_str()), ("SVC_EMAIL_KEY", "mk_test_x"), ("NO_COLOR", "1")];
    let mut terminal = Terminal::start(&Home::new(), &DELETE, &env, 80);
    terminal.until(QUESTION);
    terminal
}

#[test]
fn no_is_an_answer_and_the_error_stands_on_a_line_of_its_own() {
    let service = Service::answering(&[answer(204, "", "")]);
    // Enter; no in words; the end of input, which leaves the line as it is.
    for typed in ["\n", "no\n", "\u{4}"] {
        let mut terminal = asked(&service);
        terminal.write(typed);
        let seen = terminal.end();
        assert_eq!(seen.code, 2, "{:?}", seen.raw);
        let lines = seen.raw.lines().collect::<Vec<_>>();
        assert_eq!(lines.last(), Some(&"error: not confirmed; nothing was done"), "{lines:?}");
        assert!(lines[0].starts_with(QUESTION.trim_end()), "{lines:?}");
    }
    assert!(service.requests().is_empty());
}

#[test]
fn ctrl_c_ends_a_question() {
    let service = Service::answering(&[answer(204, "", "")]);
    let terminal = asked(&service);
    terminal.signal("-INT");
    let seen = terminal.end();
    assert_eq!((seen.code, seen.raw), (130, format!("{QUESTION}\ninterrupted\n")));
    assert!(service.requests().is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_hidden_question_given_up_leaves_the_terminal_as_it_was() {
    for by_key in [true, false] {
        let home = Home::new();
        let mut terminal = Terminal::start(&home, &LOGIN, &[("NO_COLOR", "1")], 80);
        terminal.until(HIDDEN);
        assert!(!terminal.echoes(), "what is pasted at once would be seen");
        if by_key {
            terminal.write("mk_test_sec\u{3}");
        } else {
            terminal.signal("-INT");
        }
        let seen = terminal.wait();
        assert_eq!(seen.code, 130, "{:?}", seen.raw);
        assert!(seen.raw.ends_with("\ninterrupted\n"), "{:?}", seen.raw);
        assert!(!seen.raw.contains("mk_test"), "{:?}", seen.raw);
        assert!(terminal.echoes());
    }
}

#[test]
fn ctrl_c_ends_what_reads_standard_input() {
    let home = Home::new();
    let send = ["emails", "send", "--from", "a@b.test", "--to", "c@d.test", "--subject", "s"];
    for sandbox in [&["--sandbox"][..], &[]] {
        let args = [sandbox, &send[..], &["--html", "-"]].concat();
        let mut terminal = Terminal::start(&home, &args, &[], 80);
        terminal.until("end with Ctrl-D");
        terminal.signal("-INT");
        assert_eq!(terminal.wait().code, -2);
    }
}

#[test]
fn a_hidden_question_without_an_answer_changes_nothing() {
    // Enter; the end of input, which leaves the line as it is.
    for typed in ["\n", "\u{4}"] {
        let home = Home::new();
        let mut terminal = Terminal::start(&home, &LOGIN, &[("NO_COLOR", "1")], 80);
        terminal.until(HIDDEN);
        terminal.write(typed);
        let seen = terminal.end();
        let said = format!("{HIDDEN}\nerror: no key was entered; nothing was changed\n");
        assert_eq!((seen.code, seen.raw), (2, said));
        assert!(!home.path("config").exists());
    }
}

#[test]
fn a_mistake_in_the_address_is_told_before_the_key_is_asked_for() {
    let mut terminal = Terminal::start(&Home::new(), &["login"], &[("NO_COLOR", "1")], 80);
    terminal.until("Base URL of the email service: ");
    terminal.write("no host\n");
    let seen = terminal.end();
    assert_eq!(seen.code, 2, "{:?}", seen.raw);
    assert!(seen.raw.contains("\nerror: the base address is no address"), "{:?}", seen.raw);

    let mut terminal = Terminal::start(&Home::new(), &["login"], &[("NO_COLOR", "1")], 80);
    terminal.until("Base URL of the email service: ");
    // A bare name, as people type it.
    terminal.write("mail.invalid\n");
    terminal.until(HIDDEN);
    terminal.write("\n");
    assert_eq!(terminal.end().code, 2);
}

#[test]
fn a_bare_address_of_this_machine_is_plain_http() {
    let (home, service) = (Home::new(), Service::one(200, "[]"));
    let mut terminal = Terminal::start(&home, &["login"], &[("NO_COLOR", "1")], 80);
    terminal.until("Base URL of the email service: ");
    terminal.write(&format!("{}\n", service.url().trim_start_matches("http://")));
    terminal.until(HIDDEN);
    terminal.write("mk_test_x\n");
    let seen = terminal.end();
    assert_eq!(seen.code, 0, "{:?}", seen.raw);
    assert!(seen.raw.contains(&format!("at {}\n", service.url())), "{:?}", seen.raw);
}

/// A service that takes a request and never answers; says when it has come.
fn silent() -> (String, std::sync::mpsc::Receiver<std::net::TcpStream>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (came, comes) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        use std::io::Read as _;
        let (mut stream, _) = listener.accept().expect("it comes");
        let mut request = Vec::new();
        // The head is there, so that the request is under way.
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a head");
            request.extend(byte);
        }
        came.send(stream).expect("somebody waits");
    });
    (url, comes)
}

#[test]
fn ctrl_c_says_whether_something_may_have_been_processed() {
    let send = "emails send --from a@b.test --to c@d.test --subject s --text t";
    for (line, said) in [
        (
            send,
            "error: interrupted before the service answered: it may have been processed\n  \
             look before you send it again: the recipient, your webhooks, the service's dashboard\n",
        ),
        (
            "audiences create Ada",
            "error: interrupted before the service answered: it may have been processed\n  \
             look before you repeat it: svc audiences list\n",
        ),
        ("audiences list", "interrupted\n"),
    ] {
        let (url, comes) = silent();
        let env =
            [("SVC_EMAIL_URL", url.as_str()), ("SVC_EMAIL_KEY", "mk_test_x"), ("NO_COLOR", "1")];
        let args = line.split(' ').collect::<Vec<_>>();
        let mut terminal = Terminal::start(&Home::new(), &args, &env, 100);
        let _open = comes.recv().expect("it comes");
        terminal.write("\u{3}");
        let seen = terminal.end();
        assert_eq!(seen.code, 130, "{line}: {:?}", seen.raw);
        // What the terminal shows of the key is taken away first.
        assert!(seen.raw.ends_with(&format!("\r\u{1b}[2K{said}")), "{line}: {:?}", seen.raw);
    }
}

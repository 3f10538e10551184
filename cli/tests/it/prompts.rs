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
    assert_eq!((seen.code, seen.raw), (130, format!("{QUESTION}\nerror: interrupted\n")));
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
        assert!(seen.raw.ends_with("\nerror: interrupted\n"), "{:?}", seen.raw);
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

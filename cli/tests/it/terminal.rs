//! `svc` on a terminal: a pseudo-terminal of 80 columns.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::{Home, Service, answer};

pub struct Seen {
    /// The exit code, or the signal that ended it, negative.
    pub code: i32,
    /// Everything that the terminal got, lines ended by `\n`.
    pub raw: String,
}

/// Runs with all three streams on a terminal; `answer` is typed when a question
/// has been asked.
fn on_terminal(home: &Home, args: &[&str], env: &[(&str, &str)], typed: Option<&str>) -> Seen {
    let mut terminal = Terminal::start(home, args, env, 80);
    if let Some(typed) = typed {
        terminal.write(typed);
    }
    terminal.end()
}

/// A command with all three streams on a terminal.
pub struct Terminal {
    child: Child,
    master: File,
    /// What came so far.
    raw: Vec<u8>,
}

impl Terminal {
    pub fn start(home: &Home, args: &[&str], env: &[(&str, &str)], columns: u16) -> Self {
        Self::run(home.command(args), env, columns)
    }

    /// As [`start`](Self::start), with the terminal as `/dev/tty`, so that keys
    /// such as Ctrl-C mean something.
    #[cfg(target_os = "linux")]
    pub fn start_in_session(home: &Home, args: &[&str], env: &[(&str, &str)]) -> Self {
        let svc = home.command(args);
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(svc.get_program()).args(svc.get_args()).env_clear();
        command.envs(svc.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", "/usr/bin:/bin").current_dir(home.path(""));
        Self::run(command, env, 80)
    }

    fn run(mut command: Command, env: &[(&str, &str)], columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("sized");
        let path = ptsname(&master, Vec::new()).expect("a name").into_string().expect("UTF-8");
        let slave =
            || OwnedFd::from(File::options().read(true).write(true).open(&path).expect("opened"));
        command.envs(env.iter().copied()).env("TERM", "xterm-256color");
        command.stdin(slave()).stdout(slave()).stderr(slave());
        let child = command.spawn().expect("svc starts");
        Self { child, master: File::from(master), raw: Vec::new() }
    }

    pub fn write(&mut self, typed: &str) {
        self.master.write_all(typed.as_bytes()).expect("typed");
    }

    /// Reads until this has been shown.
    pub fn until(&mut self, shown: &str) {
        while !String::from_utf8_lossy(&self.raw).contains(shown) {
            assert!(
                self.read(),
                "it ended without {shown:?}: {:?}",
                String::from_utf8_lossy(&self.raw)
            );
        }
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("runs").success());
    }

    /// Whether typed characters are shown.
    pub fn echoes(&self) -> bool {
        let modes = tcgetattr(&self.master).expect("a terminal").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Reads to the end.
    pub fn end(mut self) -> Seen {
        self.wait()
    }

    /// As [`end`](Self::end); the terminal outlives the program.
    pub fn wait(&mut self) -> Seen {
        while self.read() {}
        let status = self.child.wait().expect("ends");
        let code = status.code().unwrap_or(-status.signal().unwrap_or_default());
        Seen { code, raw: String::from_utf8_lossy(&self.raw).replace("\r\n", "\n") }
    }

    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        // The end of the last process on it is an error to its reader.
        let read = self.master.read(&mut buffer).unwrap_or(0);
        self.raw.extend_from_slice(&buffer[..read]);
        read > 0
    }
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

#[test]
fn remote_control_characters_never_reach_it() {
    let body = r#"{"id":"aud_1","name":"\u001b]0;owned\u0007\u001b[2J","x\u009b31m":"\u202e"}"#;
    let service = Service::one(200, body);
    for args in [
        &["audiences", "get", "aud_1"][..],
        &["audiences", "get", "aud_1", "--json"],
        &["audiences", "get", "aud_1", "--jq", ".name"],
        &["audiences", "get", "x", "-o", "yaml"],
    ] {
        let seen = with_service(&service, args, None);
        let plain = seen.raw.replace("\u{1b}[1m", "").replace("\u{1b}[22m", "");
        let bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!plain.contains(bad), "{args:?}: {plain:?}");
        assert!(plain.contains("owned"), "{args:?}: {plain:?}");
    }
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
}

#[test]
fn what_takes_long_shows_a_sign_of_life_and_clears_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    // The answer comes later than the half second after which the sign is shown.
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it comes");
        std::thread::sleep(Duration::from_millis(900));
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(answer(200, "", "[]").as_bytes());
    });
    let env = [("SVC_EMAIL_URL", url.as_str()), ("SVC_EMAIL_KEY", "mk_test_x")];
    let seen = on_terminal(&Home::new(), &["audiences", "list"], &env, None);
    assert_eq!(seen.code, 0, "{}", seen.raw);
    assert!(seen.raw.contains("⠋ reading"), "{:?}", seen.raw);
    let after = seen.raw.rsplit("\r\u{1b}[2K").next().expect("cleared");
    assert!(after.starts_with("no audience yet"), "{:?}", seen.raw);
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

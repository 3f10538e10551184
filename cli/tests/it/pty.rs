//! Runs a program on a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pty_process::{Size, blocking};
use rustix::termios::{LocalModes, tcgetattr};

use crate::support::{Home, Watchdog};

/// The result of a run on a terminal.
pub struct TerminalOutput {
    /// The exit code, or the negated number of the signal that ended the program.
    pub code: i32,
    /// The complete output, with line ends as `\n`.
    pub raw: String,
    /// The same without the spinner, which appears whenever a response takes long.
    pub text: String,
}

/// A program with all three streams on a pseudo-terminal. It is also the controlling terminal, so
/// that keys such as Ctrl-C raise signals.
pub struct Terminal {
    child: Child,
    master: File,
    /// The output so far.
    raw: Vec<u8>,
    watchdog: Watchdog,
}

impl Terminal {
    pub fn start(home: &Home, args: &[&str], env: &[(&str, &str)], columns: u16) -> Self {
        let mut command = home.command(args);
        command.envs(env.iter().copied());
        Self::run(command, columns, None)
    }

    /// Starts a program, with `stdin` in place of the terminal if it is given.
    pub fn run(mut command: Command, columns: u16, stdin: Option<Stdio>) -> Self {
        let (master, slave) = blocking::open().expect("a terminal");
        master.resize(Size::new(24, columns)).expect("sized");
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        let child = match stdin {
            None if Path::new(SETSID).exists() => start_with_setsid(&command, &slave),
            stdin => {
                let command = blocking::Command::from(command);
                let command = stdin.into_iter().fold(command, blocking::Command::stdin);
                command.spawn(slave).expect("svc starts")
            }
        };
        let watchdog = Watchdog::start(&child);
        Self {
            child,
            master: OwnedFd::from(master).into(),
            raw: Vec::new(),
            watchdog,
        }
    }

    pub fn child(&self) -> &Child {
        &self.child
    }

    pub fn write(&mut self, typed: &str) {
        self.master.write_all(typed.as_bytes()).expect("typed");
    }

    /// Reads until the output contains this text.
    pub fn until(&mut self, shown: &str) {
        self.until_after(0, shown);
    }

    /// As [`until`](Self::until), but ignores the first `from` bytes. Returns the offset after the
    /// text.
    pub fn until_after(&mut self, from: usize, shown: &str) -> usize {
        let found = find_in_stream(&mut self.master, &mut self.raw, from, shown);
        found.unwrap_or_else(|text| {
            let why = if self.watchdog.expired() {
                "timed out"
            } else {
                "the program ended"
            };
            panic!("{why} waiting for {shown:?} in {text:?}")
        })
    }

    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .expect("runs")
                .success()
        );
    }

    /// Whether the terminal echoes typed characters.
    pub fn echoes(&self) -> bool {
        let modes = tcgetattr(&self.master).expect("a terminal").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    /// Reads until the program ends.
    pub fn end(mut self) -> TerminalOutput {
        self.wait()
    }

    /// As [`end`](Self::end), but keeps the terminal for further checks.
    pub fn wait(&mut self) -> TerminalOutput {
        while more(&mut self.master, &mut self.raw) {}
        let status = self.child.wait().expect("ends");
        let text = String::from_utf8_lossy(&self.raw);
        assert!(
            !self.watchdog.expired(),
            "timed out waiting for the program's end: {text:?}"
        );

        let code = status
            .code()
            .unwrap_or(-status.signal().unwrap_or_default());
        let raw = String::from_utf8_lossy(&self.raw).replace("\r\n", "\n");
        TerminalOutput {
            code,
            text: without_spinner(&raw),
            raw,
        }
    }
}

/// Makes its standard input the controlling terminal, and becomes the program.
const SETSID: &str = "/usr/bin/setsid";

/// A process in which code of this one runs before the program starts needs a copy of its memory
/// map, which takes most of the time of a short run. This does without.
fn start_with_setsid(program: &Command, terminal: &impl AsFd) -> Child {
    let mut command = Command::new(SETSID);
    command
        .arg("--ctty")
        .arg(program.get_program())
        .args(program.get_args())
        .env_clear();
    command.envs(
        program
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command.current_dir(program.get_current_dir().expect("a home"));
    let copy = || terminal.as_fd().try_clone_to_owned().expect("a copy");
    command
        .stdin(copy())
        .stdout(copy())
        .stderr(copy())
        .spawn()
        .expect("svc starts")
}

fn without_spinner(raw: &str) -> String {
    let is_frame = |part: &str| part.starts_with(|first| "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏".contains(first));
    raw.split("\r\u{1b}[2K")
        .filter(|part| !is_frame(part))
        .collect()
}

#[test]
fn the_spinner_is_removed() {
    let raw = "\r\u{1b}[2K⠋ looking up\r\u{1b}[2K⠙ looking up\r\u{1b}[2KDelete? \nno\n";
    assert_eq!(without_spinner(raw), "Delete? \nno\n");
}

/// Reads until the stream contains this text after the first `from` bytes. Returns the offset after
/// the text.
pub fn read_until(stream: &mut impl Read, raw: &mut Vec<u8>, from: usize, shown: &str) -> usize {
    find_in_stream(stream, raw, from, shown)
        .unwrap_or_else(|text| panic!("the stream ended without {shown:?}: {text:?}"))
}

/// As [`read_until`]. The error is the whole output.
fn find_in_stream(
    stream: &mut impl Read,
    raw: &mut Vec<u8>,
    from: usize,
    shown: &str,
) -> Result<usize, String> {
    loop {
        let found = raw[from..]
            .windows(shown.len())
            .position(|part| part == shown.as_bytes());
        if let Some(at) = found {
            return Ok(from + at + shown.len());
        }
        if !more(stream, raw) {
            return Err(String::from_utf8_lossy(raw).into_owned());
        }
    }
}

fn more(stream: &mut impl Read, raw: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    // When the last process on a terminal ends, reading fails with EIO. Linux may report that
    // before it delivers the last output, so read again.
    let read = stream
        .read(&mut buffer)
        .or_else(|_| stream.read(&mut buffer))
        .unwrap_or(0);
    raw.extend_from_slice(&buffer[..read]);
    read > 0
}

//! A pseudo-terminal with a program on it.

use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

use pty_process::{Size, blocking};
use rustix::termios::{LocalModes, tcgetattr};

use crate::support::Home;

/// What a terminal has seen.
pub struct Seen {
    /// The exit code, or the signal that ended it, negative.
    pub code: i32,
    /// Everything that the terminal got, lines ended by `\n`.
    pub raw: String,
}

/// A program with all three streams on a terminal, which is its `/dev/tty` too:
/// keys such as Ctrl-C mean something.
pub struct Terminal {
    child: Child,
    master: File,
    /// What came so far.
    raw: Vec<u8>,
}

impl Terminal {
    pub fn start(home: &Home, args: &[&str], env: &[(&str, &str)], columns: u16) -> Self {
        let mut command = home.command(args);
        command.envs(env.iter().copied());
        Self::run(command, columns, None)
    }

    /// Starts a program, with another standard input where it is given one.
    pub fn run(mut command: Command, columns: u16, stdin: Option<Stdio>) -> Self {
        let (master, slave) = blocking::open().expect("a terminal");
        master.resize(Size::new(24, columns)).expect("sized");
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm-256color");
        }
        let mut command = blocking::Command::from(command);
        if let Some(stdin) = stdin {
            command = command.stdin(stdin);
        }
        let child = command.spawn(slave).expect("svc starts");
        Self { child, master: OwnedFd::from(master).into(), raw: Vec::new() }
    }

    pub fn child(&self) -> &Child {
        &self.child
    }

    pub fn write(&mut self, typed: &str) {
        self.master.write_all(typed.as_bytes()).expect("typed");
    }

    /// Reads until this has been shown.
    pub fn until(&mut self, shown: &str) {
        self.until_after(0, shown);
    }

    /// As [`until`](Self::until), behind so many bytes; gives where it ends.
    pub fn until_after(&mut self, from: usize, shown: &str) -> usize {
        read_until(&mut self.master, &mut self.raw, from, shown)
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
        while more(&mut self.master, &mut self.raw) {}
        let status = self.child.wait().expect("ends");
        let code = status.code().unwrap_or(-status.signal().unwrap_or_default());
        Seen { code, raw: String::from_utf8_lossy(&self.raw).replace("\r\n", "\n") }
    }
}

/// Reads until this has come behind so many bytes; gives where it ends.
pub fn read_until(stream: &mut impl Read, raw: &mut Vec<u8>, from: usize, shown: &str) -> usize {
    loop {
        let found = raw[from..].windows(shown.len()).position(|part| part == shown.as_bytes());
        if let Some(at) = found {
            return from + at + shown.len();
        }
        let text = String::from_utf8_lossy(raw).into_owned();
        assert!(more(stream, raw), "it ended without {shown:?}: {text:?}");
    }
}

fn more(stream: &mut impl Read, raw: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    // The end of the last process on a terminal is an error to its reader. Linux
    // may say so just before it has looked at what that process wrote last, so
    // it is asked again.
    let read = stream.read(&mut buffer).or_else(|_| stream.read(&mut buffer)).unwrap_or(0);
    raw.extend_from_slice(&buffer[..read]);
    read > 0
}

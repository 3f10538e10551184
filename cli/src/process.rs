//! Everything of a process that a run of `svc` touches.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Read, Write};
use std::path::PathBuf;

use tokio::sync::oneshot::{Receiver, Sender, channel};

use crate::zone::Zone;

/// The streams and the environment of a run of `svc`: all it reads and writes, except files and connections.
pub struct Process {
    /// The environment variables.
    pub env: Vec<(OsString, OsString)>,
    /// The directory of relative paths.
    pub cwd: PathBuf,
    /// The time zone.
    pub zone: Zone,
    /// Standard input.
    pub stdin: Box<dyn Read + Send>,
    /// Standard output.
    pub stdout: Box<dyn Write + Send>,
    /// Standard error.
    pub stderr: Box<dyn Write + Send>,
    /// Which of the streams are terminals.
    pub terminals: Terminals,
    /// Whether Ctrl-C and other signals to this process concern the run.
    pub signals: bool,
    /// Who decides about what the run has prepared, if that is not a person at the terminal.
    pub approval: Option<Approval>,
}

/// Holds a run back once it has shown what it is about to do, until somebody has decided.
pub struct Approval {
    shown: Sender<()>,
    decision: Receiver<()>,
}

/// The other end of an [`Approval`].
pub struct Approver {
    /// Completes when the run has shown what it is about to do. An error: it has ended without that.
    pub shown: Receiver<()>,
    /// Lets the run go on. If this is dropped, the run ends and does nothing.
    pub decision: Sender<()>,
}

impl Approval {
    /// Both ends.
    pub fn new() -> (Self, Approver) {
        let (tell_shown, shown) = channel();
        let (tell_decision, decision) = channel();
        let approval = Self {
            shown: tell_shown,
            decision,
        };
        let approver = Approver {
            shown,
            decision: tell_decision,
        };
        (approval, approver)
    }

    /// Says that everything is shown, and waits. Returns whether to go on.
    pub async fn wait(self) -> bool {
        self.shown.send(()).is_ok() && self.decision.await.is_ok()
    }
}

/// Which of the standard streams are terminals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terminals {
    /// Whether standard input is one.
    pub stdin: bool,
    /// Whether standard output is one.
    pub stdout: bool,
    /// Whether standard error is one.
    pub stderr: bool,
    /// The number of columns. `None`: as many as the terminal of this process has.
    pub width: Option<usize>,
}

impl Process {
    /// This process.
    pub fn current() -> Self {
        let terminals = Terminals {
            stdin: std::io::stdin().is_terminal(),
            stdout: std::io::stdout().is_terminal(),
            stderr: std::io::stderr().is_terminal(),
            width: None,
        };
        Self {
            env: std::env::vars_os().collect(),
            cwd: std::env::current_dir().unwrap_or_default(),
            zone: Zone::Local,
            stdin: Box::new(std::io::stdin()),
            stdout: Box::new(std::io::stdout()),
            stderr: Box::new(std::io::stderr()),
            terminals,
            signals: true,
            approval: None,
        }
    }
}

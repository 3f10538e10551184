//! A receiver as a process of its own.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::SECRET;

/// Ends with the value.
pub(crate) struct Program {
    process: Child,
    said: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) fn start(path: &str, environment: &[(&str, &str)]) -> Self {
        let mut process = Command::new(path)
            .env("WEBHOOK_SECRET", SECRET)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, said }
    }

    /// The next line that it prints.
    pub(crate) fn says(&mut self) -> String {
        self.said.next().expect("the receiver ended").unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Only fails when it has ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

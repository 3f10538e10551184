//! Runs a receiver in a separate process.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::SECRET;

/// The path of the example of a crate. `cargo test --workspace` builds them all.
pub(crate) fn example(name: &str) -> String {
    let tests = std::env::current_exe().unwrap();
    let path = tests
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples")
        .join(name);
    assert!(
        path.exists(),
        "{} is not built: run `cargo build --workspace --examples`",
        path.display()
    );
    path.display().to_string()
}

/// A running example program, killed on drop.
pub(crate) struct Program {
    process: Child,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Program {
    pub(crate) fn start(path: &str, environment: &[(&str, &str)]) -> Self {
        let mut process = Command::new(path)
            .env("WEBHOOK_SECRET", SECRET)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, stdout }
    }

    /// The next line that the program prints.
    pub(crate) fn next_line(&mut self) -> String {
        self.stdout.next().expect("the receiver exited").unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails only if the program has already exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

//! The table of a benchmark, and what it was measured on. Benchmarks of other crates use it, too.

use std::fmt::Write as _;
use std::process::Command;

/// The number among the arguments.
pub(crate) fn count() -> Option<usize> {
    std::env::args().find_map(|arg| arg.parse().ok())
}

/// What was measured, the result and its limit.
#[derive(Default)]
pub(crate) struct Table(String);

impl Table {
    pub(crate) fn row(&mut self, what: &str, result: &str, limit: &str) {
        let row = format!("| {what} | {result} | {limit} |\n");
        print!("{row}");
        self.0.push_str(&row);
    }

    /// How often `ours` goes into `bare`, both in results a second.
    pub(crate) fn ratio(&mut self, what: &str, ours: f64, bare: f64, at_least: &str) {
        let result = format!("{:.2}", ours / bare);
        eprintln!("{what}: {ours:.0} and {bare:.0} a second");
        self.row(what, &result, &format!("≥ {at_least}"));
    }

    /// Writes it at the end of this file, after the heading `Result`. `command` has made it.
    pub(crate) fn write(self, path: &str, command: &str) {
        const HEADING: &str = "## Result\n";

        let text = std::fs::read_to_string(path).unwrap();
        let (before, _) = text.split_once(HEADING).unwrap();
        let mut text = format!("{before}{HEADING}\n");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let system = [
            ("uname", "-sm"),
            ("rustc", "--version"),
            ("postgres", "--version"),
        ];
        let system = system.map(|(program, option)| said_by(program, option));
        let day = said_by("date", "+%F");
        writeln!(
            text,
            "{day}, `{command}`: {cores} cores, {}. Other programs ran beside it, so only what is \
             relative counts.\n\n| | result | limit |\n|---|---|---|\n{}",
            system.join(", "),
            self.0.trim_end(),
        )
        .unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// What a program prints, or that it is not there.
fn said_by(program: &str, option: &str) -> String {
    let find = format!("PATH=\"$PATH:$(ls -d /usr/lib/postgresql/*/bin)\"; {program} {option}");
    let output = Command::new("sh").args(["-c", &find]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}

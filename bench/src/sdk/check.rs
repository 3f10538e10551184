//! The figures that have targets: allocations and instructions of svc-sdk and of resend-rs, counted in
//! one run, and the peak memory of an attachment.

use std::fmt;
use std::process::Command;

use crate::instructions;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const BEGIN: &str = "<!-- written by `sdk readme` -->\n";
const END: &str = "<!-- end -->";

/// The greatest ratio of svc-sdk to resend-rs.
struct Target {
    what: &'static str,
    call: &'static str,
    allocations: Limit,
    instructions: Limit,
}

struct Limit {
    /// What is to be reached.
    target: f64,
    /// What `check` allows: a little more than what was reached.
    allowed: f64,
}

const TARGETS: [Target; 2] = [
    Target {
        what: "one email",
        call: "send",
        allocations: Limit {
            target: 0.9,
            allowed: 1.05,
        },
        instructions: Limit {
            target: 1.0,
            allowed: 1.15,
        },
    },
    Target {
        what: "a batch of 100 emails",
        call: "batch",
        allocations: Limit {
            target: 0.4,
            allowed: 1.2,
        },
        instructions: Limit {
            target: 0.9,
            allowed: 1.5,
        },
    },
];

/// The greatest ratio of the peak memory to the encoded attachment.
const MAX_PEAK: f64 = 1.5;
pub const ATTACHMENT: usize = 10 << 20;

pub struct Figures {
    rows: Vec<Row>,
    /// Of an attachment from memory, relative to its encoded size.
    peak: f64,
}

struct Row {
    target: &'static Target,
    own: Counts,
    other: Counts,
}

/// Per call.
struct Counts {
    allocations: f64,
    instructions: f64,
}

pub fn measure() -> Figures {
    let rows = TARGETS.iter().map(|target| Row {
        target,
        own: Counts::of(&format!("{}/svc", target.call)),
        other: Counts::of(&format!("{}/resend-rs", target.call)),
    });
    let encoded = ATTACHMENT.div_ceil(3) * 4;
    Figures {
        rows: rows.collect(),
        peak: run("attachment/svc", 3).1 * 1024.0 / encoded as f64,
    }
}

pub fn write_readme(figures: &Figures) {
    let text = std::fs::read_to_string(README).expect("read the README");
    let (before, rest) = text.split_once(BEGIN).expect("the mark before the table");
    let (_, after) = rest.split_once(END).expect("the mark after the table");
    let text = format!("{before}{BEGIN}{figures}{END}{after}");
    std::fs::write(README, text).expect("write the README");
}

impl Figures {
    pub fn is_above_a_limit(&self) -> bool {
        self.peak > MAX_PEAK || self.rows.iter().any(Row::is_above_its_limit)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| per call | svc-sdk | resend-rs | ratio | target | allowed |")?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        for Row { target, own, other } in &self.rows {
            let mut line = |unit, own: f64, other: f64, limit: &Limit| {
                let what = target.what;
                let ratio = own / other;
                let Limit { target, allowed } = limit;
                writeln!(
                    f,
                    "| {what}: {unit} | {own:.0} | {other:.0} | {ratio:.2} | {target} | {allowed} |"
                )
            };
            line(
                "allocations",
                own.allocations,
                other.allocations,
                &target.allocations,
            )?;
            line(
                "instructions",
                own.instructions,
                other.instructions,
                &target.instructions,
            )?;
        }
        let peak = self.peak;
        writeln!(
            f,
            "| an attachment of 10 MiB from memory: peak memory, relative to its encoded size | \
             {peak:.2} | | | {MAX_PEAK} | {MAX_PEAK} |"
        )
    }
}

impl Row {
    fn is_above_its_limit(&self) -> bool {
        let Target {
            allocations,
            instructions,
            ..
        } = self.target;
        self.own.allocations > allocations.allowed * self.other.allocations
            || self.own.instructions > instructions.allowed * self.other.instructions
    }
}

impl Counts {
    fn of(name: &str) -> Self {
        Self {
            allocations: run(name, 500).0,
            instructions: instructions::per_call(name),
        }
    }
}

/// Runs a benchmark in a process of its own. Returns its allocations per call and its peak in KiB.
fn run(name: &str, count: u32) -> (f64, f64) {
    let program = std::env::current_exe().expect("path of this program");
    let output = Command::new(program)
        .args(["calls", name, &count.to_string()])
        .output()
        .expect("run the benchmark");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.starts_with(name));
    let mut numbers = line
        .unwrap_or_else(|| panic!("no figures of {name} in: {text}"))
        .split_whitespace()
        .skip(1)
        .map(|number| number.parse().expect("number"));
    (numbers.next().expect("allocations"), numbers.next().expect("peak"))
}

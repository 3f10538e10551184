//! The figures that have targets: allocations and instructions of svc-sdk and of resend-rs, counted in
//! one run, and the peak memory of an attachment. The README has them in a table.

use std::process::Command;

use crate::instructions;

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const BEGIN: &str = "<!-- written by `sdk check --write` -->\n";
const END: &str = "<!-- end -->";

/// The greatest ratios of svc-sdk to resend-rs.
struct Target {
    what: &'static str,
    call: &'static str,
    allocations: f64,
    instructions: f64,
}

const TARGETS: [Target; 2] = [
    Target {
        what: "one email",
        call: "send",
        allocations: 0.9,
        instructions: 1.0,
    },
    Target {
        what: "a batch of 100 emails",
        call: "batch",
        allocations: 0.4,
        instructions: 0.9,
    },
];

/// The greatest ratio of the peak memory to the encoded attachment.
const MAX_PEAK: f64 = 1.5;
pub const ATTACHMENT: usize = 10 << 20;

/// By how much a ratio in the README may differ from what is measured: the counts vary by about 1 %.
const TOLERANCE: f64 = 0.03;

/// A row of the table.
pub struct Figure {
    what: String,
    own: f64,
    /// The value of resend-rs, or the size to which the peak is related.
    other: f64,
    target: f64,
}

pub fn measure() -> Vec<Figure> {
    let mut figures = Vec::new();
    for target in &TARGETS {
        let own = Counts::of(&format!("{}/svc", target.call));
        let other = Counts::of(&format!("{}/resend-rs", target.call));
        figures.push(Figure {
            what: format!("{}: allocations", target.what),
            own: own.allocations,
            other: other.allocations,
            target: target.allocations,
        });
        figures.push(Figure {
            what: format!("{}: instructions", target.what),
            own: own.instructions,
            other: other.instructions,
            target: target.instructions,
        });
    }

    figures.push(Figure {
        what: "an attachment of 10 MiB from memory: peak KiB, to its encoded size".to_owned(),
        own: run("attachment/svc", 3).1,
        other: ATTACHMENT.div_ceil(3) as f64 * 4.0 / 1024.0,
        target: MAX_PEAK,
    });
    figures
}

impl Figure {
    pub fn is_above_its_target(&self) -> bool {
        self.ratio() > self.target
    }

    fn ratio(&self) -> f64 {
        self.own / self.other
    }

    fn row(&self) -> String {
        let ratio = self.ratio();
        let Self {
            what,
            own,
            other,
            target,
        } = self;
        format!("| {what} | {own:.0} | {other:.0} | {ratio:.2} | {target} |\n")
    }

    /// Whether this is the row of the same figure, whose counts may differ a little.
    fn is_in(&self, row: &str) -> bool {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [what, _, _, ratio, target] = cells[..] else {
            return false;
        };
        let is_near = |ratio: f64| (ratio - self.ratio()).abs() <= TOLERANCE;
        what == self.what && target == self.target.to_string() && ratio.parse().is_ok_and(is_near)
    }
}

pub fn table(figures: &[Figure]) -> String {
    let head = "| per call | svc-sdk | resend-rs | ratio | target |\n|---|---|---|---|---|\n";
    let rows: String = figures.iter().map(Figure::row).collect();
    head.to_owned() + &rows
}

/// Whether the table in the README has these figures.
pub fn readme_has(figures: &[Figure]) -> bool {
    let readme = Readme::read();
    let rows: Vec<&str> = readme.table.lines().skip(2).collect();
    rows.len() == figures.len()
        && figures
            .iter()
            .zip(rows)
            .all(|(figure, row)| figure.is_in(row))
}

pub fn write_readme(figures: &[Figure]) {
    let Readme { before, after, .. } = Readme::read();
    let text = format!("{before}{BEGIN}{}{END}{after}", table(figures));
    std::fs::write(README, text).expect("write the README");
}

struct Readme {
    before: String,
    table: String,
    after: String,
}

impl Readme {
    fn read() -> Self {
        let text = std::fs::read_to_string(README).expect("read the README");
        let (before, rest) = text.split_once(BEGIN).expect("the mark before the table");
        let (table, after) = rest.split_once(END).expect("the mark after the table");
        Self {
            before: before.to_owned(),
            table: table.to_owned(),
            after: after.to_owned(),
        }
    }
}

/// Per call.
struct Counts {
    allocations: f64,
    instructions: f64,
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
    (
        numbers.next().expect("allocations"),
        numbers.next().expect("peak"),
    )
}

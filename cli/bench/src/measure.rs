//! Measures instructions with valgrind, and CPU time and peak memory with `wait4`.

use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use wait4::Wait4 as _;

use crate::runs::Run;

/// Number of runs per command.
const ROUNDS: usize = 40;

pub struct Figures {
    pub instructions: u64,
    /// Minimum CPU time (user and system) of all rounds, in milliseconds.
    pub least: f64,
    /// Median CPU time, in milliseconds.
    pub median: f64,
    /// Median peak memory, in KiB.
    pub peak: u64,
}

/// Measures a command. `None` if the program does not exist.
pub fn figures(run: &Run) -> Option<Figures> {
    drop_page_cache(&run.program);
    run.command(&[]).spawn().ok()?.wait().ok()?;
    let mut cpu = Vec::new();
    let mut peak = Vec::new();
    for _ in 0..ROUNDS {
        let mut child = run.command(&[]).spawn().expect("it starts");
        let used = child.wait4().expect("it ends");
        let mut stderr = String::new();
        let _ = child
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut stderr);
        assert!(used.status.success(), "{}: {stderr}", run.name);
        let time = used.rusage.utime + used.rusage.stime;
        cpu.push(time.as_secs_f64() * 1000.0);
        peak.push(used.rusage.maxrss / 1024);
    }

    cpu.sort_by(f64::total_cmp);
    peak.sort_unstable();
    Some(Figures {
        instructions: instructions(run),
        least: cpu[0],
        median: cpu[ROUNDS / 2],
        peak: peak[ROUNDS / 2],
    })
}

/// Drops the program's file from the page cache. A file that was just written is cached in large
/// folios, and touching one byte counts the whole folio.
fn drop_page_cache(program: &Path) {
    let _ = Command::new("sync").arg(program).status();
    let of = format!("if={}", program.display());
    let _ = Command::new("dd")
        .args([&of, "iflag=nocache", "count=0", "status=none"])
        .status();
}

fn instructions(run: &Run) -> u64 {
    let valgrind = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
    ];
    let out = run.command(&valgrind).output().expect("valgrind");
    let stderr = String::from_utf8_lossy(&out.stderr);
    let collected = stderr
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let (_, collected) = collected.unwrap_or_else(|| panic!("no count in: {stderr}"));
    collected.trim().parse().expect("a number")
}

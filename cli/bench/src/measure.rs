//! Instructions by valgrind; CPU and peak memory as the kernel counts them.

use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use wait4::Wait4 as _;

use crate::runs::Run;

/// How often each is run.
const ROUNDS: usize = 40;

pub struct Figures {
    pub instructions: u64,
    /// Milliseconds of CPU, user and system: the least of all rounds.
    pub least: f64,
    pub median: f64,
    /// KiB of memory at the most: the median.
    pub peak: u64,
}

/// Nothing where the program is not there.
pub fn figures(run: &Run) -> Option<Figures> {
    forget(&run.program);
    run.command(&[]).spawn().ok()?.wait().ok()?;
    let mut cpu = Vec::new();
    let mut peak = Vec::new();
    for _ in 0..ROUNDS {
        let mut child = run.command(&[]).spawn().expect("it starts");
        let used = child.wait4().expect("it ends");
        let mut said = String::new();
        let _ = child.stderr.take().expect("piped").read_to_string(&mut said);
        assert!(used.status.success(), "{}: {said}", run.name);
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

/// Has the kernel forget the program's file, so that it is read anew. One that was
/// just written lies in memory in large pieces, of which one touch counts whole.
fn forget(program: &Path) {
    let _ = Command::new("sync").arg(program).status();
    let of = format!("if={}", program.display());
    let _ = Command::new("dd").args([&of, "iflag=nocache", "count=0", "status=none"]).status();
}

fn instructions(run: &Run) -> u64 {
    let valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let out = run.command(&valgrind).output().expect("valgrind");
    let said = String::from_utf8_lossy(&out.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected : "));
    let (_, collected) = collected.unwrap_or_else(|| panic!("no count in: {said}"));
    collected.trim().parse().expect("a number")
}

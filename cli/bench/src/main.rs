//! What a run of `svc` costs: instructions, CPU, peak memory, beside `xh`
//! doing the same POST.
//!
//! ```text
//! cargo run --release                    all of it, with machine and versions
//! cargo run --release -- check           fails where a figure is missed
//! SVC=path XH=path cargo run --release   other binaries
//! ```
//!
//! The service is a process of its own on loopback that answers by hand. This
//! program stays small: the kernel counts a parent's memory for a child that
//! has not begun yet.

mod measure;
mod peer;
mod runs;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use measure::{Figures, figures};
use runs::Runs;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["peer", dir] => peer::serve_for_ever(dir.as_ref()),
        [] => report(false),
        ["check"] => report(true),
        _ => {
            eprintln!("nothing for all of it, or check");
            ExitCode::from(2)
        }
    }
}

fn report(check: bool) -> ExitCode {
    let svc = path("SVC", concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/svc"));
    let xh = path("XH", "xh");
    // A name without a directory is looked up as the shell does.
    let xh = if xh.components().count() > 1 { xh } else { found(&xh).unwrap_or(xh) };
    let runs = Runs::start(&svc, &xh);
    machine(&svc, &xh);
    let mut missed = 0;
    println!(
        "{:<20} {:>14} {:>9} {:>9} {:>9} {:>7}",
        "", "instructions", "CPU ms", "median", "peak KiB", ""
    );
    for run in runs.all() {
        let Some(Figures { instructions, least, median, peak }) = figures(&run) else {
            println!("{:<20} is not there", run.name);
            continue;
        };
        let held = run.limit.is_none_or(|limit| least <= limit.cpu_ms && peak <= limit.peak_kib);
        missed += usize::from(!held);
        let verdict = match run.limit {
            Some(_) if held => "held",
            Some(_) => "MISSED",
            None => "",
        };
        println!(
            "{:<20} {instructions:>14} {least:>9.2} {median:>9.2} {peak:>9} {verdict:>7}",
            run.name
        );
    }
    let size = std::fs::metadata(&svc).map(|file| file.len()).unwrap_or_default();
    println!("size of svc: {:.1} MiB", size as f64 / 1024.0 / 1024.0);
    missed += usize::from(size >= 25 << 20);
    if check && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn path(variable: &str, otherwise: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| otherwise.into(), PathBuf::from)
}

fn found(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// What it was measured on, and with which versions.
fn machine(svc: &PathBuf, xh: &PathBuf) {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let models: Vec<&str> =
        cpus.lines().filter_map(|line| line.strip_prefix("model name")).collect();
    let model =
        models.first().map_or("unknown", |model| model.trim_start_matches(['\t', ':', ' ']));
    println!("{} x {model}, Linux {}", models.len(), read("/proc/sys/kernel/osrelease").trim());
    println!("load when it began: {}", read("/proc/loadavg").split(' ').next().unwrap_or_default());
    for program in [svc, xh] {
        let said = Command::new(program).arg("--version").output();
        let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
        let first = said.unwrap_or_default().lines().next().unwrap_or_default().to_owned();
        println!("{} is {first}", program.display());
    }
    println!();
}

//! Measures instructions, CPU time and peak memory of `svc`, compared with `xh` sending the same
//! POST request.
//!
//! ```text
//! cargo run --release                    print all figures, the machine and the versions
//! SVC=path XH=path cargo run --release   measure other binaries
//! ```
//!
//! The service is a minimal server in a separate process on loopback. This program must stay
//! small: until a child calls `exec`, the kernel counts the parent's memory as the child's.

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
        ["peer", dir] => peer::serve_forever(dir.as_ref()),
        [] => report(),
        _ => {
            eprintln!("it takes no arguments");
            ExitCode::from(2)
        }
    }
}

fn report() -> ExitCode {
    let svc = path(
        "SVC",
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/svc"),
    );
    let xh = path("XH", "xh");
    // Look up a bare name in PATH.
    let xh = if xh.components().count() > 1 {
        xh
    } else {
        in_path(&xh).unwrap_or(xh)
    };
    let runs = Runs::start(&svc, &xh);
    machine(&svc, &xh);
    println!(
        "{:<20} {:>14} {:>9} {:>9} {:>9}",
        "", "instructions", "CPU ms", "median", "peak KiB"
    );
    for run in runs.all() {
        let Some(Figures {
            instructions,
            least,
            median,
            peak,
        }) = figures(&run)
        else {
            println!("{:<20} skipped: program not found", run.name);
            continue;
        };
        println!(
            "{:<20} {instructions:>14} {least:>9.2} {median:>9.2} {peak:>9}",
            run.name
        );
    }

    let size = std::fs::metadata(&svc)
        .map(|file| file.len())
        .unwrap_or_default();
    println!("size of svc: {:.1} MiB", size as f64 / 1024.0 / 1024.0);
    ExitCode::SUCCESS
}

fn path(variable: &str, default: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| default.into(), PathBuf::from)
}

fn in_path(name: &Path) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// Prints the machine and the versions of the programs.
fn machine(svc: &PathBuf, xh: &PathBuf) {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let models: Vec<&str> = cpus
        .lines()
        .filter_map(|line| line.strip_prefix("model name"))
        .collect();
    let model = models.first().map_or("unknown", |model| {
        model.trim_start_matches(['\t', ':', ' '])
    });
    println!(
        "{} x {model}, Linux {}",
        models.len(),
        read("/proc/sys/kernel/osrelease").trim()
    );
    println!(
        "load average at the start: {}",
        read("/proc/loadavg").split(' ').next().unwrap_or_default()
    );
    for program in [svc, xh] {
        let output = Command::new(program).arg("--version").output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let first = text
            .unwrap_or_default()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        println!("{} is {first}", program.display());
    }

    println!();
}

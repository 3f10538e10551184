//! Prints the machine and the versions that the results depend on.

use std::process::Command;

pub(crate) fn describe() {
    let cpu = file("/proc/cpuinfo");
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "machine   {cores} x{}, Linux {}",
        model.trim_start_matches([' ', '\t', ':']).trim(),
        file("/proc/sys/kernel/osrelease").trim()
    );
    let directory = std::env::temp_dir();
    let system = first_line("stat", &["-f", "-c", "%T", &directory.to_string_lossy()]);
    println!("data      {} ({})", directory.display(), system);
    println!("load      {}", file("/proc/loadavg").trim());
    println!(
        "versions  svc-reference-server {}, SQLite {}, {}",
        env!("CARGO_PKG_VERSION"),
        rusqlite::version(),
        first_line("rustc", &["--version"])
    );
    println!("          {}", super::wrk::version());
}

fn file(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The first line of a command's output.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default()
        .lines()
        .next()
        .unwrap_or("unknown")
        .to_owned()
}

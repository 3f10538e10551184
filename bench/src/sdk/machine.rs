//! Prints the machine and the versions of the compared crates.

const LOCK: &str = include_str!("../../Cargo.lock");

pub fn print() {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let models: Vec<&str> = cpus
        .lines()
        .filter_map(|line| line.strip_prefix("model name"))
        .collect();
    let model = models.first().map_or("unknown", |model| {
        model.trim_start_matches(['\t', ':', ' '])
    });
    let load = read("/proc/loadavg");
    println!(
        "{} x {model}, Linux {}",
        models.len(),
        read("/proc/sys/kernel/osrelease").trim()
    );
    println!(
        "load average at start: {}",
        load.split(' ').next().unwrap_or_default()
    );
    for name in [
        "hyper",
        "hyper-util",
        "reqwest",
        "resend-rs",
        "svix",
        "tokio",
    ] {
        let entry = LOCK
            .split("[[package]]")
            .find(|entry| entry.contains(&format!("name = \"{name}\"\n")));
        let version = entry.and_then(|entry| entry.split("version = \"").nth(1)?.split('"').next());
        print!("{name} {}  ", version.unwrap_or("?"));
    }

    println!("\n");
}

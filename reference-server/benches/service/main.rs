//! Benchmarks of the reference server with all features on: authentication, scopes,
//! validation, durable commits, and signed deliveries to one webhook that subscribes to
//! `email.delivered`.
//!
//! `cargo bench -p svc-reference-server` runs all benchmarks. Names as arguments
//! (`start sends batches deliveries backlog dead connections advance growth mixed kill attack`)
//! select benchmarks; a number, with or without `--seconds` before it, is the duration of
//! each load in seconds. The server is a
//! separate process, `wrk` generates the load, and this process receives the deliveries
//! and checks their signatures.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its results"
)]

mod attack;
mod benchmarks;
mod endurance;
mod growth;
mod machine;
mod process;
mod receiver;
mod traffic;
mod wrk;

use std::time::Duration;

type Measure = fn(Duration);

const ALL: [(&str, Measure); 12] = [
    ("start", benchmarks::start),
    ("sends", benchmarks::sends),
    ("batches", benchmarks::batches),
    ("deliveries", benchmarks::deliveries),
    ("backlog", benchmarks::backlog),
    ("dead", benchmarks::dead),
    ("connections", benchmarks::connections),
    ("advance", benchmarks::advance),
    ("growth", |_| growth::growth()),
    ("mixed", endurance::mixed),
    ("kill", endurance::kill),
    ("attack", attack::attack),
];

/// As in `svc`, whose server is measured.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|text| text != "--bench" && text != "--seconds")
        .collect();
    if let [command, location, option] = &arguments[..]
        && command == process::SERVE
    {
        return process::serve(location, option);
    }

    let seconds = arguments
        .iter()
        .find_map(|text| text.parse().ok())
        .unwrap_or(5);
    let selected: Vec<&String> = arguments
        .iter()
        .filter(|text| text.parse::<u64>().is_err())
        .collect();
    machine::describe();
    for (name, measure) in ALL {
        if selected.is_empty() || selected.iter().any(|selected_name| *selected_name == name) {
            println!("\n{name}");
            measure(Duration::from_secs(seconds));
        }
    }
}

//! What the server does in a second, and how that grows, with everything
//! switched on: auth, scopes, validation, durable commits, signed deliveries to
//! one webhook that hears of `email.delivered`.
//!
//! `cargo bench -p svc-reference-server` measures all of it in one run; the
//! names of figures as arguments (`start sends batches deliveries backlog dead
//! connections advance growth`) measure those alone, a number is the seconds for
//! each load. The server is a process of its own, the load comes from `wrk`, and
//! this process receives the deliveries and checks their signatures.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints what it measured")]

mod figures;
mod growth;
mod machine;
mod process;
mod receiver;
mod wrk;

use std::time::Duration;

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|text| text != "--bench").collect();
    if let [word, place] = &arguments[..]
        && word == process::SERVE
    {
        return process::serve(place);
    }
    let seconds = arguments.iter().find_map(|text| text.parse().ok()).unwrap_or(5);
    let named: Vec<&String> =
        arguments.iter().filter(|text| text.parse::<u64>().is_err()).collect();
    machine::describe();
    for (name, measure) in figures::ALL {
        if named.is_empty() || named.iter().any(|wanted| *wanted == name) {
            println!("\n{name}");
            measure(Duration::from_secs(seconds));
        }
    }
}

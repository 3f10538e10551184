//! Benchmarks of svc-sdk against reqwest, a bare hyper client, resend-rs and svix.
//! Allocations and instructions are counted, not timed.
//!
//! ```text
//! cargo run --release --bin sdk                       everything, with machine and versions
//! cargo run --release --bin sdk -- allocations        allocations and peak memory per call
//! cargo run --release --bin sdk -- instructions       instructions per call (requires valgrind)
//! cargo run --release --bin sdk -- latency            p50, p99, and CPU at concurrency 64
//! cargo run --release --bin sdk -- attachment         10 MiB: peak memory and CPU
//! cargo run --release --bin sdk -- calls NAME COUNT   one benchmark only
//! cargo run --release --bin sdk -- check              allocations and instructions against resend-rs: fails
//!                                           above the targets, and if README.md has other figures
//!                                           (requires valgrind)
//! cargo run --release --bin sdk -- check --write      writes the figures into README.md
//! ```
//!
//! The client runs on a current-thread runtime. The mock server is a separate process on
//! the loopback interface.

#[cfg(feature = "peers")]
mod attachment;
mod calls;
mod check;
mod counting;
#[cfg(feature = "peers")]
mod hyper_fs;
mod instructions;
#[cfg(feature = "peers")]
mod latency;
#[cfg(feature = "peers")]
mod machine;
mod mock_server;
mod spans;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["server", response] = args.as_slice() {
        return mock_server::run(response);
    }

    // reqwest is built without a crypto provider and uses the process-wide default.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("build the runtime");
    match args.as_slice() {
        #[cfg(feature = "peers")]
        [] => {
            machine::print();
            runtime.block_on(calls::allocations(calls::ALL, 2_000));
            instructions::print();
            runtime.block_on(latency::print());
            runtime.block_on(attachment::print(None));
        }
        ["allocations"] => runtime.block_on(calls::allocations(calls::ALL, 2_000)),
        ["instructions"] => instructions::print(),
        ["check"] => check(false),
        ["check", "--write"] => check(true),
        #[cfg(feature = "peers")]
        ["latency"] => runtime.block_on(latency::print()),
        #[cfg(feature = "peers")]
        ["attachment"] => runtime.block_on(attachment::print(None)),
        #[cfg(feature = "peers")]
        ["attachment", name] => runtime.block_on(attachment::print(Some(name))),
        ["calls", name, count] => {
            let count = count.parse().expect("number");
            runtime.block_on(calls::allocations(&[name], count));
        }
        _ => eprintln!(
            "allocations | instructions | latency | attachment | check [--write] | calls NAME COUNT"
        ),
    }
}

fn check(write: bool) {
    let figures = check::measure();
    print!("{}", check::table(&figures));
    if write {
        check::write_readme(&figures);
    }

    let is_above = figures.iter().any(check::Figure::is_above_its_target);
    if is_above {
        eprintln!("above a target");
    }
    let is_written = check::readme_has(&figures);
    if !is_written {
        eprintln!("README.md has other figures: run `sdk check --write`");
    }
    if is_above || !is_written {
        std::process::exit(1);
    }
}

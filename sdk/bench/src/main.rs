//! Benchmarks of svc-sdk against reqwest, a bare hyper client, resend-rs and svix.
//! Allocations and instructions are counted, not timed.
//!
//! ```text
//! cargo run --release                       everything, with machine and versions
//! cargo run --release -- allocations        allocations and peak memory per call
//! cargo run --release -- instructions       instructions per call (requires valgrind)
//! cargo run --release -- latency            p50, p99, and CPU at concurrency 64
//! cargo run --release -- attachment         10 MiB: peak memory and CPU
//! cargo run --release -- calls NAME COUNT   one benchmark only
//! ```
//!
//! The client runs on a current-thread runtime. The mock server is a separate process on
//! the loopback interface.

mod attachment;
mod calls;
mod counting;
mod hyper_fs;
mod instructions;
mod latency;
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
        [] => {
            machine::print();
            runtime.block_on(calls::allocations(&calls::ALL, 2_000));
            instructions::print();
            runtime.block_on(latency::print());
            runtime.block_on(attachment::print(None));
        }
        ["allocations"] => runtime.block_on(calls::allocations(&calls::ALL, 2_000)),
        ["instructions"] => instructions::print(),
        ["latency"] => runtime.block_on(latency::print()),
        ["attachment"] => runtime.block_on(attachment::print(None)),
        ["attachment", name] => runtime.block_on(attachment::print(Some(name))),
        ["calls", name, count] => {
            let count = count.parse().expect("number");
            runtime.block_on(calls::allocations(&[name], count));
        }
        _ => eprintln!("allocations | instructions | latency | attachment | calls NAME COUNT"),
    }
}

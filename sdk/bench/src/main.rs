//! What a call costs, beside raw reqwest, a bare hyper client, resend-rs and
//! svix: allocations and instructions are counted, not timed.
//!
//! ```text
//! cargo run --release                       all of it, with machine and versions
//! cargo run --release -- allocations        per call, and the peak of memory
//! cargo run --release -- instructions       per call (needs valgrind)
//! cargo run --release -- latency            p50 and p99, CPU at concurrency 64
//! cargo run --release -- attachment         10 MiB: peak memory and CPU
//! cargo run --release -- calls NAME COUNT   only these calls
//! ```
//!
//! The client runs on a current-thread runtime; the peer is a process of its
//! own on loopback that answers by hand.

mod attachment;
mod calls;
mod counting;
mod hyper_fs;
mod instructions;
mod latency;
mod machine;
mod peer;
mod spans;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["peer", answer] = args.as_slice() {
        return peer::serve_for_ever(answer);
    }
    // reqwest without a TLS provider of its own asks for the process's.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
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
            let count = count.parse().expect("a number");
            runtime.block_on(calls::allocations(&[name], count));
        }
        _ => eprintln!("allocations | instructions | latency | attachment | calls NAME COUNT"),
    }
}

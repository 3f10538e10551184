//! The `svc` binary for the tests of this package: cargo builds a binary of the same
//! package before the tests and provides its path.

use std::process::ExitCode;

/// As in `svc`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(svc_cli::main())
}

//! The `svc` binary. The implementation is in the library.

use std::process::ExitCode;

/// The sandbox handles messages of many megabytes, whose memory glibc's allocator keeps.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(svc_cli::main())
}

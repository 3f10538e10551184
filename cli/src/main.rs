//! The `svc` binary. The implementation is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(svc_cli::main())
}

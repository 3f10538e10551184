//! `svc` as these tests start it: a program of this package, so that cargo
//! builds it before them and tells them where it is.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(svc_cli::main())
}

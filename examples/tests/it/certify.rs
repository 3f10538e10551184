//! `svc certify` finds nothing to say about the receivers that are HTTP servers.

use std::ffi::OsString;
use std::path::Path;

use crate::SECRET;
use crate::program::Program;

#[test]
fn every_receiver_passes() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let secret_file = dir.join("certify-secret.txt");
    std::fs::write(&secret_file, SECRET).unwrap();
    let receivers = [
        (env!("CARGO_BIN_EXE_receiver-actix"), "extraction"),
        (env!("CARGO_BIN_EXE_receiver-axum"), "extraction"),
        (env!("CARGO_BIN_EXE_receiver-email"), "email"),
        (env!("CARGO_BIN_EXE_receiver-hyper"), "extraction"),
    ];
    // Each takes 10 seconds to give up a body that arrives too slowly.
    std::thread::scope(|scope| {
        for (program, service) in receivers {
            let secret_file = &secret_file;
            scope.spawn(move || {
                let mut receiver = Program::start(program, &[("ADDR", "127.0.0.1:0")]);
                let url = receiver.next_line();
                // Without output; a failure is reported on standard error.
                let mut args: Vec<OsString> =
                    ["svc", "certify", &url, "--service", service, "--strict", "--jq", "empty"]
                        .map(OsString::from)
                        .into();
                args.extend(["--secret-file".into(), secret_file.into()]);
                assert_eq!(svc_cli::run_args(&args), 0, "{program}");
            });
        }
    });
}

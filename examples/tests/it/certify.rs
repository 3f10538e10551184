//! `svc certify` has nothing to say about any of the receivers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::SECRET;
use crate::program::{Program, example};

#[test]
fn every_receiver_passes() {
    let database = tempfile::tempdir().unwrap();
    let database = database.path().join("app.db").display().to_string();
    let address = ("ADDR", "127.0.0.1:0");
    let secret_file = secret_file("certify-secret.txt");
    let receivers = [
        (&example("receiver_actix"), "extraction", vec![address]),
        (&example("receiver_axum"), "extraction", vec![address]),
        (&example("receiver_email"), "email", vec![address]),
        (&example("receiver_hyper"), "extraction", vec![address]),
        (
            &example("receiver_inbox"),
            "extraction",
            vec![address, ("DATABASE", &database)],
        ),
    ];
    // Each takes 10 seconds to give up a body that arrives too slowly.
    std::thread::scope(|scope| {
        for (program, service, environment) in &receivers {
            let secret_file = &secret_file;
            scope.spawn(move || {
                let mut receiver = Program::start(program, environment);
                let url = receiver.next_line();
                assert_eq!(certify(&url, service, secret_file), 0, "{program}");
            });
        }
    });
}

fn secret_file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, SECRET).unwrap();
    path
}

/// Runs without output; a failure or advice is reported on standard error.
fn certify(url: &str, service: &str, secret_file: &Path) -> u8 {
    let no_advice = r#"if .advice > 0 then error("advice: \(.)") else empty end"#;
    let args = [
        "svc",
        "certify",
        url,
        "--service",
        service,
        "--jq",
        no_advice,
    ];
    let mut args: Vec<OsString> = args.iter().map(OsString::from).collect();
    args.extend(["--secret-file".into(), secret_file.into()]);
    svc_cli::run(&args, svc_cli::Process::current())
}

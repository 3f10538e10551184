//! `svc certify` has nothing to say about any of the receivers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::SECRET;
use crate::lambda::FunctionUrl;
use crate::program::Program;

#[test]
fn every_receiver_passes() {
    let database = tempfile::tempdir().unwrap();
    let database = database.path().join("app.db").display().to_string();
    let address = ("ADDR", "127.0.0.1:0");
    let secret_file = secret_file("certify-secret.txt");
    let receivers = [
        (env!("CARGO_BIN_EXE_receiver-actix"), "extraction", vec![address]),
        (env!("CARGO_BIN_EXE_receiver-axum"), "extraction", vec![address]),
        (env!("CARGO_BIN_EXE_receiver-email"), "email", vec![address]),
        (env!("CARGO_BIN_EXE_receiver-hyper"), "extraction", vec![address]),
        (
            env!("CARGO_BIN_EXE_receiver-inbox"),
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
                assert_eq!(certify(&url, service, secret_file, &[]), 0, "{program}");
            });
        }
    });
}

/// AWS collects the body before it calls the function, so its deadline is not the function's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lambda_function_passes() {
    let function = FunctionUrl::start().await;
    let url = function.url.clone();
    let certify = move || {
        let secret_file = secret_file("certify-lambda-secret.txt");
        certify(&url, "extraction", &secret_file, &["--skip", "body-deadline"])
    };
    // A thread of its own, because `svc` starts a runtime.
    let code = tokio::task::spawn_blocking(certify).await.unwrap();
    assert_eq!(code, 0);
}

fn secret_file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, SECRET).unwrap();
    path
}

/// Runs without output; a failure is reported on standard error.
fn certify(url: &str, service: &str, secret_file: &Path, more: &[&str]) -> u8 {
    let args = ["svc", "certify", url, "--service", service, "--strict", "--jq", "empty"];
    let mut args: Vec<OsString> = args.iter().chain(more).map(OsString::from).collect();
    args.extend(["--secret-file".into(), secret_file.into()]);
    svc_cli::run_args(&args)
}

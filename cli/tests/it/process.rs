//! The binary gives a run what its process has: arguments, environment, directory, streams; and ends
//! with its exit code. The other tests call `svc` inside their own process.

use crate::support::{Home, Run, Service};

#[test]
fn the_process_ends_with_the_exit_code_of_the_run() {
    let home = Home::new();
    let ok = Service::always(200, "[]");
    let missing = Service::always(404, "{}");
    let list = |url: &str| {
        let mut command = home.command(&["audiences", "list", "--retries", "0"]);
        command.envs([("SVC_EMAIL_URL", url), ("SVC_EMAIL_KEY", "mk_test_x")]);
        Run::of(command.output().expect("svc runs"))
    };

    let done = list(&ok.url());
    assert_eq!(
        (done.code, done.stdout.as_str(), done.stderr.as_str()),
        (0, "[]\n", "")
    );
    assert_eq!(list(&missing.url()).code, 5);

    let down = list("http://127.0.0.1:9");
    assert_eq!((down.code, down.stdout.as_str()), (8, ""));
    assert_eq!(down.error()["kind"], "unavailable");
    assert_eq!(home.run_spawned(&["audiences", "list"]).code, 3);
    assert_eq!(home.run_spawned(&["audiences", "lst"]).code, 2);
    assert_eq!(home.run_spawned(&[]).code, 2);

    let version = home.run_spawned(&["--version"]);
    assert_eq!(
        (version.code, version.stdout.split(' ').next()),
        (0, Some("svc"))
    );
}

#[test]
fn the_process_reads_standard_input_and_files_of_its_directory() {
    let home = Home::new();
    home.file("body.json", "{}");
    let mut child = home.spawn(&[
        "sign",
        "--service",
        "email",
        "--secret-file",
        "-",
        "body.json",
    ]);
    let mut stdin = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, b"whsec_3f1c").expect("taken");
    drop(stdin);
    let run = Run::wait(child);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        run.stdout,
        home.run_with_input(
            &[
                "sign",
                "--service",
                "email",
                "--secret-file",
                "-",
                "body.json"
            ],
            "whsec_3f1c",
        )
        .stdout
    );
}

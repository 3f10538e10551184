//! `svc watch` while the server is restarted, and its end.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::RunningServer;
use crate::support::{Home, Watchdog};

#[test]
fn watch_continues_after_a_restart_of_the_server_and_ends_with_an_interruption() {
    let home = Home::new();
    let server = RunningServer::start(&home, &[]);
    let mut watching = home.command(&["watch", "--json"]);
    let mut watching = watching
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let watchdog = Watchdog::start(&watching);
    let mut lines = BufReader::new(watching.stdout.take().expect("piped")).lines();
    let mut until = |kind: &str| loop {
        let line = lines
            .next()
            .unwrap_or_else(|| panic!("no event {kind}"))
            .expect("text");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        if event["type"] == kind {
            break event;
        }
    };

    until("ready");
    home.sandbox_json(&["audiences", "list"]);
    assert_eq!(until("request")["operation"], "audiences.list");

    let address = server.http.trim_start_matches("http://").to_owned();
    drop(server);
    let _server = RunningServer::start_at(&home, &address, &[]);
    // The command says that it may have missed something, and watches again.
    assert_eq!(until("reset")["reason"], "restarted");

    home.sandbox_json(&["domains", "list"]);
    assert_eq!(until("request")["operation"], "domains.list");

    let pid = watching.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .expect("kill runs")
            .success()
    );

    let ended = watching.wait_with_output().expect("ends");
    drop(watchdog);
    let notes = String::from_utf8(ended.stderr).expect("UTF-8");
    assert_eq!(ended.status.code(), Some(130), "{notes}");
    assert!(notes.contains("events may be missing"), "{notes}");
}

//! A server with `--network public`, which others can reach.

use serde_json::{Value, json};

use super::RunningServer;
use crate::support::{Home, Run};

#[test]
fn a_public_server_of_the_same_user_is_controlled_without_typing_its_token() {
    let home = Home::new();
    let server = RunningServer::start(&home, &["--network", "public"]);
    let status = home.run(&["sandbox", "status"]);
    assert_eq!(
        status.json()["addresses"]["http"],
        server.http,
        "{status:?}"
    );

    let traced = home.run(&[
        "-v",
        "sandbox",
        "organizations",
        "create",
        "--name",
        "Public",
    ]);
    assert_eq!(traced.code, 0, "{traced:?}");

    let key = traced.json()["email_key"]
        .as_str()
        .expect("a key")
        .to_owned();
    let list = home.run(&["sandbox", "messages", "list", "--organization", "Public"]);
    assert_eq!(list.json(), json!([]), "{list:?}");

    // The services accept the key of an organization, not the control token.
    let mut domains = home.command(&["domains", "list"]);
    domains
        .env("SVC_EMAIL_URL", &server.http)
        .env("SVC_EMAIL_KEY", key);
    let domains = Run::complete(domains);
    assert_eq!(domains.code, 0, "{domains:?}");

    // The token is in a file that only its owner can read, and in no output.
    let data = status.json()["data"]
        .as_str()
        .expect("a directory")
        .to_owned();
    let file = std::path::Path::new(&data).join("server.json");
    let text = std::fs::read_to_string(&file).expect("the file of the server");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    let token = found["control_token"].as_str().expect("a token");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&file)
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }
    for run in [&status, &traced, &list] {
        assert!(!run.stdout.contains(token) && !run.stderr.contains(token));
    }
}

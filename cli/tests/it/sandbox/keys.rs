//! Keys of the environment in a run with `--sandbox`.

use serde_json::Value;

use super::{RunningServer, send};
use crate::support::{Home, Run};

fn sends(home: &Home, env: &[(&str, &str)]) -> Run {
    let email = send("hello@sandbox.test", "ada@example.test");
    home.run_with_env(
        &[&["--sandbox", "-v", "--retries", "0"], &email[..]].concat(),
        env,
    )
}

/// The key with which the newest request of an operation was made.
fn key_of_request(home: &Home, operation: &str) -> Value {
    let list = ["sandbox", "requests", "list", "--operation", operation];
    home.run(&list).json()[0]["key"].clone()
}

#[test]
fn a_key_that_the_sandbox_has_issued_is_used() {
    let home = Home::new();
    let _serving = RunningServer::start(&home, &["--in-memory"]);
    let create = "sandbox keys create --service email --scope emails:read --jq .key";
    let mut create = create.split(' ').collect::<Vec<_>>();
    let key = home.run(&create).stdout;
    let key = key.trim_end();
    let run = sends(&home, &[("SVC_EMAIL_KEY", key)]);
    assert_eq!(
        (run.code, run.stderr.contains("emails:send")),
        (4, true),
        "{run:?}"
    );

    let said = "SVC_EMAIL_KEY: issued by this sandbox, so it is used";
    assert!(
        run.stderr.contains(said) && !run.stderr.contains(key),
        "{run:?}"
    );

    let file = home.file("key.txt", key);
    assert_eq!(sends(&home, &[("SVC_EMAIL_KEY_FILE", &file)]).code, 4);

    let who = home.run_with_env(&["--sandbox", "whoami"], &[("SVC_EMAIL_KEY", key)]);
    assert!(who.stderr.contains(said), "{who:?}");

    // Of any organization.
    home.run(&["sandbox", "organizations", "create", "--name", "Shop"]);
    create.extend(["--organization", "Shop"]);
    let key = home.run(&create).stdout;
    assert_eq!(sends(&home, &[("SVC_EMAIL_KEY", key.trim_end())]).code, 4);
}

#[test]
fn a_key_of_another_service_stays_in_the_process() {
    let home = Home::new();
    let _serving = RunningServer::start(&home, &["--in-memory"]);
    assert_eq!(sends(&home, &[]).code, 0);

    let seeded = key_of_request(&home, "emails.send");
    assert!(seeded.is_string(), "{seeded}");

    let env = [("SVC_EMAIL_KEY", "mk_live_topsecret")];
    let run = sends(&home, &env);
    assert_eq!(
        (run.code, key_of_request(&home, "emails.send")),
        (0, seeded),
        "{run:?}"
    );

    let said = "SVC_EMAIL_KEY: not a key of this sandbox, so it is not sent";
    assert!(
        run.stderr.contains(said) && !run.stderr.contains("topsecret"),
        "{run:?}"
    );

    let who = home.run_with_env(&["--sandbox", "whoami"], &env);
    assert!(who.code == 0 && who.stderr.contains(said), "{who:?}");

    // What cannot be a key does not stop a run that does not need it.
    for env in [("SVC_EMAIL_KEY", ""), ("SVC_EMAIL_KEY_FILE", "missing.txt")] {
        assert_eq!(sends(&home, &[env]).code, 0, "{env:?}");
    }
}

//! What `--dry-run` shows is what a run sends.

use serde_json::{Value, json};

use crate::support::Home;

#[track_caller]
fn shown(home: &Home, line: &str) -> Value {
    let words = line.split(' ').collect::<Vec<_>>();
    let run = home.run(&[&["--sandbox", "--dry-run"], &words[..]].concat());
    assert_eq!(run.code, 0, "{line}: {run:?}");
    run.json()
}

#[test]
fn names_are_the_ids_that_a_run_uses() {
    let home = Home::new();
    let audience = home.sandbox_json(&["audiences", "create", "News"]);
    let id = audience["id"].as_str().expect("an id");
    let contact = home.sandbox_json(&["contacts", "create", "News", "ada@b.test"]);
    let contact = contact["id"].as_str().expect("an id");
    let domain = home.sandbox_json(&["domains", "get", "sandbox.test"]);
    let domain = domain["id"].as_str().expect("an id");
    for (line, method, end) in [
        (
            "audiences delete News",
            "DELETE",
            format!("/audiences/{id}"),
        ),
        (
            "contacts create News bob@b.test",
            "POST",
            format!("/audiences/{id}/contacts"),
        ),
        (
            "contacts update ada@b.test --name Ada",
            "PATCH",
            format!("/contacts/{contact}"),
        ),
        (
            "domains verify sandbox.test",
            "POST",
            format!("/domains/{domain}/verify"),
        ),
    ] {
        let request = shown(&home, line);
        let url = request["url"].as_str().expect("a URL");
        assert!(url.ends_with(&end), "{line}: {url}");
        assert_eq!(request["method"], method, "{line}");
    }

    // Nothing was changed.
    let contacts = home.sandbox_json(&["contacts", "list", "News"]);
    assert_eq!(
        (&contacts[0]["name"], &contacts[1]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn a_time_is_that_of_the_clock_that_the_send_uses() {
    let home = Home::new();
    home.sandbox_json(&["sandbox", "clock", "freeze"]);
    home.sandbox_json(&["sandbox", "clock", "advance", "40d"]);
    let send =
        "emails send --from hello@sandbox.test --to ada@b.test --subject Hi --text Hello --at +2h";
    let request = shown(&home, send);
    let words = send.split(' ').collect::<Vec<_>>();
    let sent = home.sandbox_json(&words);
    let at = |value: &Value| {
        let text = value.as_str().expect("a time");
        chrono::DateTime::parse_from_rfc3339(text).expect("a time")
    };

    assert_eq!(
        at(&request["body"]["scheduledAt"]),
        at(&sent["scheduledAt"])
    );
}

#[test]
fn an_import_shows_the_updates_of_contacts_that_exist() {
    let home = Home::new();
    home.sandbox_json(&["audiences", "create", "News"]);
    home.sandbox_json(&["contacts", "create", "News", "ada@b.test"]);
    let file = home.file("people.csv", "email,name\nada@b.test,Ada\nbob@b.test,Bob\n");
    let requests = shown(
        &home,
        &format!("contacts import News {file} --existing update"),
    );
    let methods = [&requests[0]["method"], &requests[1]["method"]];
    assert_eq!(methods, [&json!("PATCH"), &json!("POST")]);
}

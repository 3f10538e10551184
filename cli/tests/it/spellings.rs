//! What people type who know other programs: it works, and says nothing about it.

use serde_json::{Value, json};

use crate::support::{Home, Run, Service};

/// Runs a command in the sandbox of a home.
fn run(home: &Home, line: &str) -> Run {
    home.run(&line.split(' ').collect::<Vec<_>>())
}

#[track_caller]
fn works(home: &Home, line: &str) -> Value {
    let run = run(home, &format!("-q {line}"));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line}: {run:?}");
    run.json()
}

#[test]
fn a_name_is_given_with_its_option_or_without() {
    let home = Home::new();
    let create = "--sandbox audiences create --name";
    assert_eq!(works(&home, &format!("{create} News"))["name"], "News");
    assert_eq!(works(&home, &format!("{create}=Offers"))["name"], "Offers");

    let contact = "--sandbox contacts create --email ada@b.test --audience News";
    assert_eq!(works(&home, contact)["email"], "ada@b.test");

    let contact = "--sandbox contacts create News --email bob@b.test --name Bob";
    let created = works(&home, contact);
    assert_eq!(
        (&created["email"], &created["name"]),
        (&json!("bob@b.test"), &json!("Bob"))
    );

    let domain = works(&home, "--sandbox domains create --name shop.test");
    assert_eq!(domain["name"], "shop.test");

    let webhook = "--sandbox webhooks create --url http://127.0.0.1:9/h --event email.sent";
    assert_eq!(works(&home, webhook)["url"], "http://127.0.0.1:9/h");

    let organization = works(&home, "sandbox organizations create Acme");
    assert_eq!(organization["name"], "Acme");

    // Wrong usage is still reported as it was typed.
    let wrong = run(&home, "--sandbox audiences create --nme News");
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.stderr.contains("--nme"), "{wrong:?}");

    let none = run(&home, "--sandbox audiences create");
    assert!(none.code == 2 && none.stderr.contains("NAME"), "{none:?}");
}

#[test]
fn other_words_for_options_and_commands() {
    let home = Home::new();
    works(&home, "--sandbox audiences create News");
    assert_eq!(
        works(&home, "--sandbox contacts list News --limit 5"),
        json!([])
    );
    assert_eq!(works(&home, "sandbox emails list --page-size 5"), json!([]));

    let template = "sandbox templates create hi --subject Hi --text Hello";
    assert_eq!(works(&home, template)["id"], "hi");

    let fault = works(
        &home,
        "sandbox faults add --operation emails.send --count 3 --status 503",
    );
    assert_eq!(fault["remaining"], 3);

    works(&home, "sandbox faults remove --all");
    assert_eq!(works(&home, "sandbox faults list"), json!([]));

    works(&home, "--sandbox audiences delete News -y -y --json --json");
    let both = run(&home, "sandbox faults remove flt_1 --all");
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn the_receiver_of_an_event_is_its_url() {
    let home = Home::new();
    let app = Service::always(200, "");
    let line = format!("trigger email.sent --url {}", app.url());
    let run = run(&home, &line);
    assert_eq!(
        (run.code, &run.json()["status"]),
        (0, &json!(200)),
        "{run:?}"
    );
}

#[test]
fn what_is_wrong_beside_an_alias_is_what_is_reported() {
    let home = Home::new();
    let missing = run(
        &home,
        "--sandbox webhooks create --url http://127.0.0.1:9/h",
    );
    assert!(
        missing.code == 2 && missing.stderr.contains("--event"),
        "{missing:?}"
    );

    let template = "sandbox templates create --name hi --subject Hi --text Hello";
    assert_eq!(works(&home, template)["id"], "hi");

    works(&home, "sandbox messages delete --all --yes");
    works(&home, "sandbox faults delete");
}

#[test]
fn words_of_other_places_lead_to_the_command() {
    let home = Home::new();
    for (line, meant) in [
        ("templates list", "svc sandbox templates"),
        ("sandbox requests tail", "svc watch"),
        ("sandbox up", "svc sandbox serve"),
        ("extraction me", "svc whoami"),
        ("emails create", "svc emails send"),
        ("config set email_key x", "svc login"),
    ] {
        let run = run(&home, line);
        assert!(
            run.code == 2 && run.stderr.contains(meant),
            "{line}: {run:?}"
        );
    }
}

#[test]
fn a_shortened_id_of_a_table_is_known_as_such() {
    let home = Home::new();
    for line in [
        "--sandbox emails get eml_01a2…aea1",
        "--sandbox domains get dom_01a2…aea1",
        "sandbox messages get msg_01a2…aea1",
    ] {
        let run = run(&home, line);
        let hint = run.error()["hint"].to_string();
        assert!(run.code == 5 && hint.contains("--wide"), "{line}: {run:?}");
    }
}

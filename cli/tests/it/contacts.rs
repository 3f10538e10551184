//! `svc contacts import` and `list --all -o csv`. One file, because all tests use the same fixtures; those of
//! single rows are in `contacts/rows.rs`.

mod rows;

use serde_json::{Value, json};

use crate::support::{Home, Service, http_response};

/// An id, which is not looked up.
const AUDIENCE: &str = "aud_019a0b1c-0000-7000-8000-000000000001";

fn audience(home: &Home) -> String {
    let created = home.sandbox_json(&["audiences", "create", "News"]);
    created["id"].as_str().expect("an id").to_owned()
}

fn results(run: &crate::support::Run) -> Vec<String> {
    let report = run.json();
    let entries = report.as_array().expect("a list").iter();
    entries
        .map(|entry| entry["result"].as_str().expect("a result").to_owned())
        .collect()
}

#[test]
fn import_is_repeatable() {
    let home = Home::new();
    let audience = audience(&home);
    let file = home.file(
        "people.csv",
        "E-Mail,Name,plan,topics\nada@example.test,Ada,pro,news;offers\nnot-an-address,Bad,,\n\
         bob@example.test,\"Bob, Jr\",,\n",
    );
    let import = |more: &[&str]| {
        home.run(&[&["--sandbox", "contacts", "import", &audience, &file], more].concat())
    };
    let first = import(&["--ignore", "plan"]);
    assert_eq!(first.code, 11, "{first:?}");
    assert_eq!(results(&first), ["created", "failed", "created"]);
    assert_eq!(first.json()[1]["row"], 3);
    assert_eq!(first.error()["code"], "import_partly_refused");

    assert_eq!(results(&import(&[])), ["skipped", "failed", "skipped"]);

    home.file(
        "people.csv",
        "email,name,subscribed\nADA@example.test,Ada King,no\nnew@example.test,New,yes\n",
    );
    let second = import(&["--existing", "update"]);
    assert_eq!(
        (second.code, results(&second)),
        (0, vec!["updated".into(), "created".into()])
    );

    let all = home.sandbox_json(&["contacts", "list", &audience, "--all"]);
    // Rows are sent concurrently, so the order in the audience may differ.
    let is_ada = |contact: &&Value| contact["email"] == "ada@example.test";
    let ada = all
        .as_array()
        .and_then(|all| all.iter().find(is_ada))
        .expect("Ada is there");
    assert_eq!(
        (&ada["name"], &ada["subscribed"]),
        (&json!("Ada King"), &json!(false))
    );
    assert_eq!(
        (&ada["metadata"], &ada["topics"]),
        (&json!({"plan": "pro"}), &json!(["news", "offers"]))
    );
    assert_eq!(all.as_array().map(Vec::len), Some(3));
}

/// An export must not look as if everybody were still subscribed.
#[test]
fn a_csv_that_may_lack_a_consent_or_custom_data_says_so() {
    let export = |contact: &str| {
        let page = format!(r#"{{"contacts":[{contact}],"total":1}}"#);
        let service = Service::always(200, &page);
        let env = [
            ("SVC_EMAIL_URL", service.url()),
            ("SVC_EMAIL_KEY", "mk_test_abcdef123".to_owned()),
        ];
        let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
        let args = ["contacts", "list", "aud_1", "--all", "-o", "csv"];
        Home::new().run_with_env(&args, &env)
    };

    let run = export(
        r#"{"id":"c","email":"a@b.test","permissions":{"mail":"off"},"metafields":[{"key":"plan","value":"pro"}]}"#,
    );
    assert_eq!(run.code, 0, "{run:?}");

    for part in ["warning", "metafields, permissions", "ndjson", "opt-out"] {
        assert!(run.stderr.contains(part), "{part}: {run:?}");
    }

    let run = export(
        r#"{"id":"c","email":"a@b.test","metadata":{},"email_marketing_consent":{"state":"unsubscribed"}}"#,
    );
    assert!(run.stdout.contains("c,a@b.test,,false,"), "{run:?}");
    assert!(!run.stderr.contains("warning"), "{run:?}");
}

#[test]
fn export_and_import_round_trip() {
    let home = Home::new();
    let from = audience(&home);
    let to = audience(&home);
    let lines = (0..45).map(|n| format!("p{n}@example.test,\"P, {n}\",\"{{\"\"n\"\":{n}}}\"\n"));
    let file = home.file(
        "a.csv",
        format!("email,name,metadata\n{}", lines.collect::<String>()),
    );
    let run = home.run(&[
        "--sandbox",
        "contacts",
        "import",
        &from,
        &file,
        "-o",
        "ndjson",
    ]);
    assert_eq!((run.code, run.stdout.lines().count()), (0, 45), "{run:?}");

    let csv = home.run(&[
        "--sandbox",
        "contacts",
        "list",
        &from,
        "--all",
        "--page-size",
        "10",
        "-o",
        "csv",
    ]);
    assert_eq!((csv.code, csv.stdout.lines().count()), (0, 46), "{csv:?}");
    assert!(
        csv.stdout
            .starts_with("id,email,name,subscribed,topics,metadata\n")
    );

    let page = [
        "--sandbox",
        "contacts",
        "list",
        &from,
        "--page-size",
        "100",
        "-o",
        "csv",
    ];
    assert_eq!(home.run(&page).stdout, csv.stdout);

    let run = home.run_with_input(&["--sandbox", "contacts", "import", &to, "-"], &csv.stdout);
    assert_eq!(run.code, 0, "{run:?}");

    let ndjson = home.run(&[
        "--sandbox",
        "contacts",
        "list",
        &to,
        "--all",
        "-o",
        "ndjson",
    ]);
    // Rows are sent concurrently, so the order in the audience may differ.
    let mut contacts = ndjson.stdout.lines().map(|line| {
        let contact: Value = serde_json::from_str(line).expect("JSON");
        (contact["email"].clone(), contact["metadata"].clone())
    });
    let one = (json!("p44@example.test"), json!({"n": 44}));
    assert!(contacts.any(|contact| contact == one), "{ndjson:?}");
    assert_eq!(ndjson.stdout.lines().count(), 45);
    assert_eq!(
        home.run(&[
            "--sandbox",
            "contacts",
            "list",
            &to,
            "--all",
            "--jq",
            "length"
        ])
        .stdout,
        "45\n"
    );
}

#[test]
fn import_rejects_a_file_without_an_email_column() {
    let home = Home::new();
    let file = home.file("a.csv", "who\nada\n");
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let run = home.run_with_env(&["contacts", "import", AUDIENCE, &file], &env);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.error()["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("--column"))
    );
}

#[test]
fn import_stops_if_the_audience_does_not_exist() {
    let home = Home::new();
    let file = home.file("a.csv", "email\na@b.test\nc@d.test\n");
    let run = home.run(&["--sandbox", "contacts", "import", "aud_nope", &file]);
    assert_eq!(run.code, 5, "{run:?}");
}

#[test]
fn a_page_after_the_last_has_its_own_note() {
    let home = Home::new();
    let audience = audience(&home);
    home.sandbox_json(&["contacts", "create", &audience, "ada@example.test"]);
    let list = ["--sandbox", "contacts", "list", &audience, "-o", "table"];
    let run = home.run(&[&list[..], &["--page", "7"]].concat());
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (0, "no contacts on page 7 of this audience\n")
    );
}

#[test]
fn a_list_of_one_page_of_many_says_so_in_every_format() {
    let home = Home::new();
    let audience = audience(&home);
    for email in ["a@x.test", "b@x.test"] {
        home.sandbox_json(&["contacts", "create", &audience, email]);
    }

    let list = [
        "--sandbox",
        "contacts",
        "list",
        &audience,
        "--page-size",
        "1",
    ];
    for (format, mark) in [("table", ""), ("json", "note: "), ("ndjson", "note: ")] {
        let run = home.run(&[&list[..], &["-o", format]].concat());
        let note = format!("{mark}page 1 of 2; use --all for every page\n");
        assert_eq!((run.code, run.stderr), (0, note), "{format}");
    }
}

#[test]
fn import_compares_addresses_case_insensitively() {
    let service = Service::always(200, r#"[{"id":"con_1","email":"Ada@Example.TEST"}]"#);
    let home = Home::new();
    let file = home.file("people.csv", "email\nada@example.test\nADA@example.test\n");
    let env = [
        ("SVC_EMAIL_URL", &*service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let run = home.run_with_env(&["contacts", "import", AUDIENCE, &file], &env);
    assert_eq!(results(&run), ["skipped", "duplicate"], "{run:?}");
    assert_eq!((run.code, &run.json()[0]["id"]), (0, &json!("con_1")));
    assert!(
        service
            .requests()
            .iter()
            .all(|request| request.starts_with("GET "))
    );
}

#[test]
fn a_conflict_during_import_fails_its_row() {
    let conflict = http_response(
        409,
        "",
        r#"{"error":{"code":"conflict","message":"exists"}}"#,
    );
    let home = Home::new();
    let file = home.file("people.csv", "email,subscribed\nada@example.test,no\n");
    // The opt-out of the file was not applied, and the report says so.
    for existing in ["skip", "update"] {
        let service = Service::with_responses(&[
            http_response(200, "", r#"{"data":[],"total":0}"#),
            conflict.clone(),
        ]);
        let env = [
            ("SVC_EMAIL_URL", &*service.url()),
            ("SVC_EMAIL_KEY", "mk_test_x"),
        ];
        let args = [
            "contacts",
            "import",
            AUDIENCE,
            &file,
            "--existing",
            existing,
        ];
        let run = home.run_with_env(&args, &env);
        assert_eq!(
            (run.code, results(&run)),
            (11, vec!["failed".into()]),
            "{run:?}"
        );
    }
}

/// People who opted out stay opted out: in an import, an export, and an import of the export.
/// `SVC_TEST_CONTACTS` sets the number of contacts.
/// What is kept of each row is little, so that 300 000 of them fit in 60 MB.
#[cfg(target_os = "linux")]
#[test]
fn an_import_of_many_rows_needs_little_memory() {
    use std::io::{BufRead as _, BufReader};

    let home = Home::new();
    let audience = audience(&home);
    let peak = |rows: usize| {
        let people = (0..rows).map(|row| format!("p{row}@example.test,Person {row},{row}\n"));
        let csv = format!("email,name,number\n{}", people.collect::<String>());
        let file = home.file("people.csv", csv);
        let import = [
            "--sandbox",
            "contacts",
            "import",
            &audience,
            &file,
            "--dry-run",
        ];
        let mut command = home.command(&[&import[..], &["-o", "ndjson"]].concat());
        let command = command.stdout(std::process::Stdio::piped());
        let mut running = command
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("starts");
        let status = format!("/proc/{}/status", running.id());
        let mut peak = 0;
        let lines = BufReader::new(running.stdout.take().expect("piped")).lines();
        for (at, line) in lines.enumerate() {
            line.expect("text");
            if at % 100 == 0 {
                let status = std::fs::read_to_string(&status).unwrap_or_default();
                let highest = status.lines().find(|line| line.starts_with("VmHWM:"));
                let kib = highest.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
                peak = kib.map_or(peak, |kib: usize| kib * 1024);
            }
        }
        assert!(running.wait().expect("ends").success());
        peak
    };

    let few = peak(1_000);
    let many = peak(11_000);
    let each = many.saturating_sub(few) / 10_000;
    assert!(few > 0 && each < 200, "{each} bytes of each row");
}

#[test]
fn opt_outs_survive_import_and_export() {
    let home = Home::new();
    let from = audience(&home);
    let to = audience(&home);
    let row = |n: usize| format!("p{n}@example.test,{}\n", !n.is_multiple_of(3));
    let count = std::env::var("SVC_TEST_CONTACTS").ok();
    let count: usize = count.map_or(60, |text| text.parse().expect("a number"));
    let file: String = (0..count).map(row).collect();
    let file = home.file("people.csv", format!("email,subscribed\n{file}"));
    assert_eq!(
        home.run(&["--sandbox", "contacts", "import", &from, &file])
            .code,
        0
    );

    let csv = home.run(&["--sandbox", "contacts", "list", &from, "--all", "-o", "csv"]);
    let run = home.run_with_input(&["--sandbox", "contacts", "import", &to, "-"], &csv.stdout);
    assert_eq!(run.code, 0, "{run:?}");

    for audience in [&from, &to] {
        let all = home.sandbox_json(&["contacts", "list", audience, "--all"]);
        let all = all.as_array().expect("a list");
        assert_eq!(all.len(), count);
        for contact in all {
            let email = contact["email"].as_str().expect("an address");
            let number = email
                .trim_start_matches('p')
                .split('@')
                .next()
                .expect("a number");
            let number: usize = number.parse().expect("a number");
            assert_eq!(
                contact["subscribed"],
                json!(!number.is_multiple_of(3)),
                "{contact}"
            );
        }
    }
}

/// An old export does not subscribe people who have opted out in the meantime.
#[test]
fn an_update_from_a_file_keeps_opt_outs() {
    let home = Home::new();
    let audience = audience(&home);
    let file = home.file(
        "old.csv",
        "email,subscribed\nada@example.test,true\nnew@b.test,yes\n",
    );
    let import = ["--sandbox", "contacts", "import", &audience, &file];
    assert_eq!(home.run(&import).code, 0);

    home.sandbox_json(&[
        "contacts",
        "update",
        "ada@example.test",
        "--subscribed",
        "false",
    ]);

    let update = [&import[..], &["--existing", "update"]].concat();
    let is_subscribed = || {
        let list = home.sandbox_json(&["contacts", "list", &audience]);
        let all = list.as_array().expect("a list").clone();
        let ada = all
            .into_iter()
            .find(|contact| contact["email"] == "ada@example.test");
        ada.expect("Ada is there")["subscribed"].clone()
    };

    let run = home.run(&update);
    assert_eq!(
        (run.code, results(&run)),
        (0, vec!["skipped".into(), "skipped".into()]),
        "{run:?}"
    );

    let why = run.json()[0]["why"].to_string();
    assert!(why.contains("remains unsubscribed"), "{run:?}");
    assert_eq!(is_subscribed(), false);
}

/// An export is imported as it was, in each of its formats.
#[test]
fn every_export_is_imported_unchanged() {
    let home = Home::new();
    let from = audience(&home);
    let line = json!({
        "email": "ada@example.test",
        "name": " Ada, \"the\" Queen ",
        "topics": ["news; offers", "a,b", "plain"],
        "subscribed": false,
        "metadata": {"n": 1, "text": " x "},
    });
    let run = home.run_with_input(
        &["--sandbox", "contacts", "import", &from, "-"],
        format!(
            "{line}\n{}\n",
            json!({"email": "bob@example.test", "topics": ["news", "b"], "subscribed": true})
        ),
    );
    assert_eq!(run.code, 0, "{run:?}");

    let contacts = |audience: &str| {
        let export = ["--sandbox", "contacts", "list", audience, "--all", "--json"];
        let all = home.run(&export).json();
        let fields = |contact: &Value| {
            let keys = ["email", "name", "topics", "subscribed", "metadata"];
            keys.map(|key| contact[key].clone())
        };
        let mut all = all
            .as_array()
            .expect("a list")
            .iter()
            .map(fields)
            .collect::<Vec<_>>();
        all.sort_by_key(|fields| fields[0].to_string());
        all
    };

    let expected = contacts(&from);
    assert_eq!(expected[0][1], line["name"], "{expected:?}");

    for format in [&["-o", "csv"][..], &["-o", "ndjson"], &["--json"]] {
        let to = audience(&home);
        let file = home.run(
            &[
                &["--sandbox", "contacts", "list", &from, "--all"][..],
                format,
            ]
            .concat(),
        );
        let run = home.run_with_input(&["--sandbox", "contacts", "import", &to, "-"], &file.stdout);
        assert_eq!(run.code, 0, "{format:?}: {run:?}");
        assert_eq!(contacts(&to), expected, "{format:?}: {file:?}");
    }
}

#[test]
fn a_dry_run_of_an_import_shows_what_would_be_created() {
    let home = Home::new();
    let audience = audience(&home);
    let file = home.file("people.csv", "email,subscribed,name\na@b.test,no,Ada\n");
    let import = ["--sandbox", "contacts", "import", &audience, &file];
    let run = home.run(&[&import[..], &["--dry-run", "-o", "ndjson"]].concat());
    assert_eq!(
        (run.code, &run.json()["method"]),
        (0, &json!("POST")),
        "{run:?}"
    );
    assert!(run.stderr.contains("note: 1 of 1 rows"), "{run:?}");
}

/// A contact that was created, but could not be unsubscribed, is a failed row.
#[test]
fn an_import_reports_a_contact_that_is_created_but_not_unsubscribed() {
    let home = Home::new();
    let file = home.file("people.csv", "email,subscribed\nada@example.test,no\n");
    let service = Service::with_responses(&[
        http_response(200, "", r#"{"data":[],"total":0}"#),
        http_response(
            201,
            "",
            r#"{"id":"con_1","email":"ada@example.test","subscribed":true}"#,
        ),
        http_response(
            422,
            "",
            r#"{"error":{"code":"validation_failed","message":"no"}}"#,
        ),
    ]);
    let env = [
        ("SVC_EMAIL_URL", &*service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let run = home.run_with_env(&["contacts", "import", AUDIENCE, &file], &env);
    assert_eq!(
        (run.code, results(&run)),
        (11, vec!["failed".into()]),
        "{run:?}"
    );

    let error = &run.json()[0]["error"];
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|m| m.contains("created as con_1")),
        "{error}"
    );
    assert!(
        run.stderr
            .contains("completes those that were only created"),
        "{run:?}"
    );
    assert!(
        service.requests()[2].ends_with(r#"{"subscribed":false}"#),
        "{:?}",
        service.requests()
    );
}

/// No row under way is lost from the report when the service fails in the middle.
#[test]
fn an_import_that_ends_early_reports_every_contact_that_it_created() {
    let home = Home::new();
    let audience = audience(&home);
    let rows = (0..12)
        .map(|n| format!("u{n}@example.test,no\n"))
        .collect::<String>();
    let file = home.file("people.csv", format!("email,subscribed\n{rows}"));
    let fault = [
        "sandbox",
        "faults",
        "add",
        "--operation",
        "contacts.update",
        "--status",
        "503",
    ];
    assert_eq!(home.run(&[&fault[..], &["--times", "1"]].concat()).code, 0);

    let import = [
        "--sandbox",
        "--retries",
        "0",
        "contacts",
        "import",
        &audience,
        &file,
    ];
    let run = home.run(&import);
    assert!(
        run.code != 0 && run.stderr.contains("--existing update"),
        "{run:?}"
    );
    assert!(run.stderr.contains("of 12 rows were tried"), "{run:?}");

    let reported = run.json();
    let contacts = home.sandbox_json(&["contacts", "list", &audience, "--all"]);
    for contact in contacts.as_array().expect("a list") {
        let row = reported
            .as_array()
            .expect("a list")
            .iter()
            .find(|r| r["email"] == contact["email"]);
        let result = &row.unwrap_or_else(|| panic!("{contact} is not in {reported}"))["result"];
        assert_eq!(
            *result == "created",
            contact["subscribed"] == false,
            "{contact}: {reported}"
        );
    }
}

#[test]
fn an_import_that_leaves_a_contact_subscribed_against_the_file_is_partly_refused() {
    let home = Home::new();
    let audience = audience(&home);
    home.sandbox_json(&["contacts", "create", &audience, "ada@example.test"]);
    let content = "email,subscribed\nnew@example.test,yes\nada@example.test,no\n";
    let file = home.file("people.csv", content);
    let import = ["--sandbox", "contacts", "import", &audience, &file];
    let run = home.run(&import);
    assert_eq!(
        (run.code, results(&run)[1].as_str()),
        (11, "remains_subscribed"),
        "{run:?}"
    );

    let error = run.error();
    assert_eq!(error["code"], "import_partly_refused");
    assert_eq!(error["fields"][0]["field"], "row 3");

    let table = home.run(&[&import[..], &["-o", "table"]].concat());
    assert_eq!(table.code, 11, "{table:?}");
    assert!(table.stdout.contains("remains subscribed"), "{table:?}");
    assert!(table.stderr.contains("--existing update"), "{table:?}");
    assert_eq!(
        home.run(&[&import[..], &["--existing", "update"]].concat())
            .code,
        0
    );
    assert_eq!(home.run(&import).code, 0);
}

#[test]
fn keys_of_json_are_mapped_as_columns() {
    let home = Home::new();
    let audience = audience(&home);
    let file = home.file(
        "people.ndjson",
        "{\"email\":\"k1@x.test\",\"unsubscribed\":true,\"subscribed\":\"no\",\"first_name\":\"A\",\"city\":\"Paris\"}\n\
         {\"email\":\"k2@x.test\",\"Subscribed\":false,\"status\":\"unsubscribed\"}\n\
         {\"email\":\"k3@x.test\",\"mail\":\"k4@x.test\"}\n",
    );
    let run = home.run(&["--sandbox", "contacts", "import", &audience, &file]);
    assert_eq!(results(&run), ["created", "created", "failed"], "{run:?}");

    for key in ["unsubscribed", "status"] {
        let mapping = format!("{key} → metadata.{key} and opt-outs");
        assert!(run.stderr.contains(&mapping), "{run:?}");
    }

    let all = home.sandbox_json(&["contacts", "list", &audience, "--all"]);
    let find = |email: &str| {
        let found = all
            .as_array()
            .and_then(|all| all.iter().find(|c| c["email"] == email));
        found.expect("the contact").clone()
    };

    let metadata = json!({"city": "Paris", "first_name": "A", "unsubscribed": true});
    assert_eq!(find("k1@x.test")["metadata"], metadata);
    assert_eq!(find("k2@x.test")["subscribed"], false);
}

#[test]
fn import_refuses_a_file_with_an_unclosed_quote() {
    let home = Home::new();
    let rows = "bob@example.test,Bob\n".repeat(50);
    let file = home.file(
        "people.csv",
        format!("email,name\nada@example.test,\"Ada\n{rows}"),
    );
    let env = [
        ("SVC_EMAIL_URL", "http://127.0.0.1:9"),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let run = home.run_with_env(&["contacts", "import", AUDIENCE, &file], &env);
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.error()["message"]
            .as_str()
            .is_some_and(|m| m.contains("line 2")),
        "{run:?}"
    );
}

/// Somebody deletes a contact while an import updates the others.
#[test]
fn a_contact_that_was_deleted_meanwhile_fails_its_row_only() {
    let home = Home::new();
    let people = r#"{"data":[{"id":"con_1","email":"a@x.test"},{"id":"con_2","email":"b@x.test"}],
        "page":1,"total":2}"#;
    let updated = http_response(200, "", r#"{"id":"con_2","email":"b@x.test"}"#);
    let service = Service::with_responses(&[
        http_response(200, "", people),
        http_response(404, "", r#"{"error":{"code":"not_found"}}"#),
        updated,
    ]);
    let file = home.file("people.csv", "email,name\na@x.test,A\nb@x.test,B\n");
    let env = [
        ("SVC_EMAIL_URL", &*service.url()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ];
    let import = [
        "contacts",
        "import",
        AUDIENCE,
        &file,
        "--existing",
        "update",
    ];
    let run = home.run_with_env(&import, &env);
    let mut seen = results(&run);
    seen.sort_unstable();
    assert_eq!(
        (run.code, seen),
        (11, vec!["failed".into(), "updated".into()]),
        "{run:?}"
    );
}

#[test]
fn an_interrupted_import_says_how_to_go_on() {
    for signal in ["-INT", "-TERM"] {
        interrupt_import(signal);
    }
}

fn interrupt_import(signal: &str) {
    let home = Home::new();
    let rows = (0..50)
        .map(|n| format!("p{n}@example.test\n"))
        .collect::<String>();
    let file = home.file("people.csv", format!("email\n{rows}"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let mut command = home.command(&["contacts", "import", AUDIENCE, &file, "-o", "table"]);
    command.envs([
        ("SVC_EMAIL_URL", url.as_str()),
        ("SVC_EMAIL_KEY", "mk_test_x"),
    ]);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().expect("svc starts");
    let pid = child.id().to_string();
    // The audience is empty; the first rows are answered only after the signal.
    let mut open = Vec::new();
    let mut list = crate::support::accept(&listener);
    respond(&mut list, &http_response(200, "", "[]"));
    for _ in 0..4 {
        let mut stream = crate::support::accept(&listener);
        read_head(&mut stream);
        open.push(stream);
    }

    let killed = std::process::Command::new("kill")
        .args([signal, &pid])
        .status();
    assert!(killed.expect("kill runs").success());

    for (n, mut stream) in open.into_iter().enumerate() {
        use std::io::Write as _;
        let created = http_response(201, "", &format!(r#"{{"id":"con_{n}","subscribed":true}}"#));
        stream.write_all(created.as_bytes()).expect("sent");
    }

    // Requests that were started before the signal was seen are answered too.
    let server = std::thread::spawn(move || {
        listener.set_nonblocking(false).expect("set");
        while let Ok((mut stream, _)) = listener.accept() {
            respond(
                &mut stream,
                &http_response(201, "", r#"{"id":"con_9","subscribed":true}"#),
            );
        }
    });
    let run = crate::support::Run::wait(child);
    drop(server);
    assert_eq!(run.code, 130, "{run:?}");
    assert!(run.stderr.contains("error: interrupted after "), "{run:?}");
    assert!(
        run.stderr
            .contains("run the import again with --existing update"),
        "{run:?}"
    );
    assert!(run.stdout.contains(" created"), "{run:?}");
}

fn read_head(stream: &mut std::net::TcpStream) {
    use std::io::Read as _;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
}

fn respond(stream: &mut std::net::TcpStream, response: &str) {
    use std::io::Write as _;
    read_head(stream);
    stream.write_all(response.as_bytes()).expect("sent");
}
